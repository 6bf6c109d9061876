"""A cluster of this machine, and the environment that it is started in."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from regroup.lab import local
from regroup.lab.local import LocalCluster

pytestmark = pytest.mark.cluster


@pytest.fixture
def alone(tmp_path: Path) -> Any:
    def alone(**how: Any) -> LocalCluster:
        """A coordinator without workers."""
        return LocalCluster(tmp_path / "data", 0, **how)

    return alone


@pytest.fixture(params=["REGROUP_REDIS_URL", "regroup_redis_url"])
def another_cluster(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables that lead to it: the store, which nobody here may touch, and the token."""
    monkeypatch.setenv(request.param, "redis://127.0.0.1:1")
    monkeypatch.setenv("REGROUP_TOKEN", "of-another-cluster")


@pytest.mark.usefixtures("another_cluster")
def test_an_isolated_cluster_has_nothing_of_the_one_that_the_environment_leads_to(alone: Any) -> None:
    with alone(isolated=True) as cluster, cluster.client() as client:
        assert client.cluster().workers == 0
        assert cluster.given_token is None
        assert (cluster.data_dir / "redis").is_dir()


def test_a_cluster_with_a_given_token_answers_to_it(alone: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGROUP_TOKEN", "given-by-the-operator")
    with alone() as cluster:
        monkeypatch.setenv("REGROUP_TOKEN", "another one by now")
        with cluster.client() as client:
            assert client.cluster().workers == 0
        assert cluster.given_token == "given-by-the-operator"
        assert not (cluster.data_dir / "token").exists()


def test_whoever_interrupts_the_start_of_a_process_leaves_none_behind(
    alone: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def interrupted(*arguments: Any, **how: Any) -> "subprocess.Popen[bytes]":
        os.kill(os.getpid(), signal.SIGINT)
        started.append(popen(*arguments, **how))
        return started[0]

    monkeypatch.setattr(local.subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt), alone():
        pass
    assert [process.returncode is not None for process in started] == [True]
