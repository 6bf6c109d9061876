"""What must hold of every container of `docker compose up`, by its file: rights, limits, ports, logs, variables."""

import re
from pathlib import Path

import pytest
import yaml

from regroup.coordinator.settings import Settings
from regroup.wire.environment import SECRETS_DIR
from regroup.worker.settings import LEAVE_LIMIT, AgentSettings

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]
LASTING = {name: each for name, each in SERVICES.items() if name != "secrets"}  # which makes them, and ends
WORKERS = {name: each for name, each in SERVICES.items() if "profiles" in each}


@pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
def test_no_container_can_write_into_its_image_or_become_more_than_it_is(service):
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "cap_add", "pid", "ipc", "userns_mode"} & service.keys()
    assert service.get("network_mode", "none") == "none"
    assert not any("docker.sock" in str(volume) for volume in service["volumes"])


@pytest.mark.parametrize("service", LASTING.values(), ids=LASTING)
def test_what_ends_is_started_again_has_limits_and_fills_no_disk_with_logs(service):
    assert service["restart"] == "unless-stopped"
    assert service["init"] is True
    assert "memory" in service["deploy"]["resources"]["limits"]
    assert service["logging"]["options"].keys() == {"max-size", "max-file"}


def test_ports_are_open_on_loopback_alone_unless_somebody_says_otherwise():
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(published) == 2
    assert all(re.match(r"\$\{REGROUP_\w+:-127\.0\.0\.1\}:", port) for port in published)


def test_nobody_but_the_coordinator_reaches_redis():
    assert COMPOSE["networks"]["store"]["internal"] is True
    assert {name for name, each in SERVICES.items() if "store" in each.get("networks", [])} == {"redis", "coordinator"}


def test_no_secret_stands_in_a_file_that_is_committed():
    for name in ("docker-compose.yml", ".env"):
        text = (ROOT / name).read_text()
        assert not re.search(r"(?i)(password|token|secret)\w*\s*[:=]\s*['\"]?[A-Za-z0-9_-]{12,}", text), name


def test_each_service_waits_until_what_it_needs_serves():
    conditions = {
        name: {other: each["condition"] for other, each in service.get("depends_on", {}).items()}
        for name, service in SERVICES.items()
    }
    assert conditions["redis"] == {"secrets": "service_completed_successfully"}
    assert conditions["coordinator"] == {"redis": "service_healthy"}
    assert all(conditions[name] == {"coordinator": "service_healthy"} for name in WORKERS)


def test_every_variable_is_a_setting_that_there_is():
    for name, service in SERVICES.items():
        known = AgentSettings.model_fields if name in WORKERS else Settings.model_fields
        variables = set(service.get("environment", {})) - {SECRETS_DIR, "PYTHONPATH"}
        assert variables <= {f"REGROUP_{field.upper()}" for field in known}, name


@pytest.mark.parametrize("worker", WORKERS.values(), ids=WORKERS)
def test_a_worker_is_given_the_time_to_hand_over(worker):
    assert float(worker["stop_grace_period"].removesuffix("s")) > LEAVE_LIMIT


def test_by_default_there_is_one_worker_for_each_gpu_and_no_other():
    profiles = (ROOT / ".env").read_text()
    assert "COMPOSE_PROFILES=gpu" in profiles.splitlines()
    gpus = [each for each in WORKERS.values() if each["profiles"] == ["gpu"]]
    devices = [each["deploy"]["resources"]["reservations"]["devices"][0] for each in gpus]
    assert [device["device_ids"] for device in devices] == [["0"], ["1"]]
    assert len({each["environment"]["REGROUP_WORKER"] for each in gpus}) == len(gpus)


def test_every_base_image_can_be_another_one():
    stages = re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    named = set(re.findall(r"^FROM \S+ AS (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE))
    assert all(stage.startswith("${") or stage in named for stage in stages)


def test_what_runs_in_an_image_is_no_root_and_is_looked_at():
    text = (ROOT / "Dockerfile").read_text()
    for target in ("coordinator", "worker"):
        stage = text.partition(f" AS {target}\n")[2].partition("\nFROM ")[0]
        assert "HEALTHCHECK" in stage
        assert "USER" not in stage, "it keeps the one of the stage that both come from"
    assert re.search(r"^USER \$\{USER_ID\}:\$\{USER_ID\}$", text, re.MULTILINE)
