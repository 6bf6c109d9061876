"""The coordinator's settings, from a real environment."""

import os

import pytest

from regroup.coordinator.settings import Settings
from regroup.core.cluster import Policy
from regroup.wire.environment import BadSettings, read


@pytest.fixture(autouse=True)
def _clean(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("REGROUP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("REGROUP_DATA_DIR", str(tmp_path))


def test_without_variables_the_policy_is_the_usual_one(tmp_path):
    settings = read(Settings)
    assert settings.policy() == Policy()
    assert (settings.host, settings.data_dir, settings.redis_url) == ("127.0.0.1", tmp_path, None)


def test_every_limit_of_the_policy_can_be_set(monkeypatch):
    for name in Policy.__dataclass_fields__:
        monkeypatch.setenv(f"REGROUP_{name.upper()}", "7" if name != "detached_limit" else "70")
    assert read(Settings).policy() == Policy(
        **{name: 7 if name != "detached_limit" else 70 for name in Policy.__dataclass_fields__}
    )


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HOST", ""),  # it would bind every interface
        ("LINK_HOST", ""),
        ("PORT", "many"),
        ("PORT", "65536"),
        ("HALT_LIMIT", "-1"),
        ("HALT_LIMIT", "nan"),
        ("LOG_LEVEL", "loud"),
        ("ERROR_LIMIT", "-1"),
        ("DETACHED_LIMIT", "1.5"),
    ],
)
def test_a_bad_value_is_told_in_one_line_naming_the_variable(monkeypatch, variable, value):
    monkeypatch.setenv(f"REGROUP_{variable}", value)
    with pytest.raises(BadSettings, match=rf"^REGROUP_{variable}") as error:
        read(Settings)
    assert "\n" not in str(error.value)


def test_a_standby_needs_a_store_that_outlives_the_leader(monkeypatch):
    said = r"^REGROUP_STANDBY needs REGROUP_REDIS_URL: the store of the coordinator that leads$"
    with pytest.raises(BadSettings, match=said):
        read(Settings, standby=True)
    monkeypatch.setenv("REGROUP_REDIS_URL", "redis://somewhere")
    assert read(Settings, standby=True).standby
    assert not read(Settings).standby


def test_secrets_are_not_shown(monkeypatch):
    monkeypatch.setenv("REGROUP_TOKEN", "hush")
    monkeypatch.setenv("REGROUP_REDIS_URL", "redis://:hush@somewhere")
    assert "hush" not in repr(Settings())
