"""What services share is made once, and each gets a folder of its own."""

import stat

from regroup.wire.join import read_join_token
from regroup.wire.keys import server_keys, worker_keys
from regroup.wire.provision import provision
from regroup.wire.token import metrics_token


def test_each_service_gets_what_it_needs_and_no_more(tmp_path):
    provision(tmp_path)
    names = {place.name: {path.name for path in place.iterdir()} for place in tmp_path.iterdir()}
    assert names["coordinator"] == {"token", "keys", "regroup_redis_password"}
    assert names["redis"] == {"redis.conf"}
    assert names["worker"] == {"regroup_join"}
    assert names["prometheus"] == {"token"}
    assert names["grafana"] == {"password"}


def test_the_services_understand_each_other(tmp_path):
    provision(tmp_path)
    joining = read_join_token((tmp_path / "worker" / "regroup_join").read_text())
    keys = tmp_path / "coordinator" / "keys"
    assert (joining.server, joining.worker) == (server_keys(keys).public, worker_keys(keys))
    password = (tmp_path / "coordinator" / "regroup_redis_password").read_text().strip()
    assert f"requirepass {password}" in (tmp_path / "redis" / "redis.conf").read_text().splitlines()
    token, reading = ((tmp_path / name / "token").read_text().strip() for name in ("coordinator", "prometheus"))
    assert reading == metrics_token(token)


def test_only_the_owner_may_read_them(tmp_path):
    for path in provision(tmp_path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_what_is_there_is_kept_and_what_is_missing_is_made_to_fit(tmp_path):
    made = provision(tmp_path)
    before = {path: path.read_bytes() for path in made}
    assert provision(tmp_path) == []
    for name in ("redis/redis.conf", "worker/regroup_join"):
        (tmp_path / name).unlink()
    assert len(provision(tmp_path)) == 2
    assert {path: path.read_bytes() for path in made} == before
