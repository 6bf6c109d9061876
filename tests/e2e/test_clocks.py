"""Machines whose wall clocks are an hour apart: it is told once, and nothing is trained otherwise."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from regroup.lab.audit import audit_job

pytestmark = pytest.mark.cluster

AHEAD = """
import time
real = time.time
time.time = lambda: real() + 3600
"""


def test_a_worker_whose_clock_is_an_hour_ahead_is_told_of_and_trains_like_the_others(
    serve: Any, until: Any, tmp_path: Path
) -> None:
    ahead = tmp_path / "ahead"
    ahead.mkdir()
    (ahead / "sitecustomize.py").write_text(AHEAD)  # every interpreter of that worker begins with it
    with serve(tmp_path / "data", workers=1) as served:
        environ = served.cli.environ | {"REGROUP_WORKER": "late"}
        environ["PYTHONPATH"] += f":{ahead}"
        command = str(Path(served.cli.command[0]).with_name("regroup-agent"))
        with subprocess.Popen([command], env=environ, stderr=subprocess.DEVNULL) as agent:
            try:
                until(lambda: served.client.cluster().healthy == 2, "it is let in")
                log = (tmp_path / "data/logs/coordinator.log").read_text()
                assert log.count("the clock of late on ") == 1
                assert " is 3600 s ahead of this coordinator's" in log
                assert "the clock of w0" not in log
                job = served.ended(served.submit("faulty:Sound", steps=20, min_workers=2, max_workers=2))
                assert (job.phase, job.step, len(job.history)) == ("completed", 20, 1)
                audit = audit_job(served.client, job.id)
                assert audit.ok, audit.faults
            finally:
                agent.terminate()
