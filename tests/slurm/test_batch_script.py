"""The batch script for Slurm, with stand-ins for Slurm's commands: two "nodes" that are processes of this machine.

What they do as Slurm does it: a step runs one command on one node; a node that is down takes its steps along and gives
no new ones; `scancel --signal` reaches the steps and not the script. All else about Slurm is not tested here.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from regroup.client import Client
from regroup.client.errors import RegroupError
from regroup.lab.audit.command import audit_job
from regroup.wire.places import Endpoint, Places

pytestmark = pytest.mark.timeout(900)  # four clusters, one after the other

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "slurm/regroup.sbatch"
STANDINS = Path(__file__).parent / "standins"
LIMIT = 180.0  # seconds to wait for anything here; most take a tenth, where nothing else runs
JOB = "{task: 'faulty:Slow', steps: 120, global_batch: 12, max_workers: 2, checkpoint_every: 10}\n"


def until(condition, what):
    deadline = time.monotonic() + LIMIT
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {LIMIT:g} s in vain: {what}"
        time.sleep(0.05)
    return found


class Allocation:
    """A job of Slurm as its script sees it. It keeps its number and its data when it is started again."""

    def __init__(self, folder: Path) -> None:
        self.standin, self.data, self.spec = folder / "nodes", folder / "data", folder / "job.yaml"
        self.standin.mkdir()
        self.spec.write_text(JOB)
        self.starts = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.log = folder / "log"

    def start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("REGROUP_", "SLURM_"))}
        environ = {
            **kept,
            "PATH": f"{STANDINS}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "tests/e2e/user_code"),
            "STANDIN": str(self.standin),
            "REGROUP_DATA_DIR": str(self.data),
            "REGROUP_LINK_HOST": "127.0.0.1",
            "REGROUP_SLURM_PAUSE": "1",
            "SLURM_JOB_ID": "4711",
            "SLURM_CPUS_PER_TASK": "2",
            "REGROUP_THREADS": "1",
            "SLURM_JOB_NODELIST": "n1,n2",
            "SLURM_RESTART_COUNT": str(self.starts),
        }
        self.starts += 1
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                ["bash", str(SCRIPT), *arguments], env=environ, stdout=log, stderr=log, start_new_session=True
            )
        return self.process

    def lose(self, node: str) -> None:
        (self.standin / f"{node}.down").touch()
        os.kill(int((self.standin / f"{node}.step").read_text()), signal.SIGKILL)

    def client(self) -> Client:
        places = Places(self.data)
        return Client(Endpoint.decode(places.endpoint.read_text()).url, token_file=places.token)

    def job(self):
        with suppress(OSError, ValueError, RegroupError), self.client() as client:
            return next(iter(client.jobs()), None)

    def trains(self, members: int, beyond: int):
        """The job, once so many train it and have committed more steps than that."""

        def found():
            job = self.job()
            return job if job and job.phase == "running" and len(job.members) == members and job.step > beyond else None

        return until(found, f"{members} train beyond step {beyond}:\n{self.log.read_text()[-3000:]}")


@pytest.fixture
def allocation(tmp_path):
    allocation = Allocation(tmp_path)
    yield allocation
    if allocation.process is not None:
        with suppress(ProcessLookupError):
            os.killpg(allocation.process.pid, signal.SIGKILL)
        allocation.process.wait()
        print(allocation.log.read_text())  # where a test fails, pytest shows it


@pytest.mark.cluster
def test_a_job_survives_a_lost_node_and_goes_on_after_it_was_requeued(allocation):
    script = allocation.start(str(allocation.spec))
    job = allocation.trains(members=2, beyond=0)
    allocation.lose("n2")
    alone = allocation.trains(members=1, beyond=job.step)

    script.send_signal(signal.SIGUSR1)  # its time is nearly over
    assert script.wait(LIMIT) == 0, allocation.log.read_text()
    assert (allocation.standin / "requeued").read_text() == "4711\n"

    (allocation.standin / "n2.down").unlink()
    script = allocation.start(str(allocation.spec))
    back = allocation.trains(members=2, beyond=alone.step)
    assert back.id == job.id
    with allocation.client() as client:
        until(lambda: client.job(job.id).step > back.step, "steps are committed")
        assert [each.id for each in client.jobs()] == [job.id], "it is submitted once"
    assert script.wait(LIMIT) == 0, allocation.log.read_text()
    assert (allocation.standin / "requeued").read_text() == "4711\n", "what is done is not requeued"

    script = allocation.start()  # the cluster ended with its job; another one on the same data tells of it
    done = until(allocation.job, "the job is known")
    assert (done.id, done.phase, done.step) == (job.id, "completed", 120)
    with allocation.client() as client:
        assert audit_job(client, job.id, allocation.data / "records" / job.id).ok
    script.send_signal(signal.SIGTERM)
    assert script.wait(LIMIT) == 0, allocation.log.read_text()


@pytest.mark.cluster
def test_where_the_first_node_is_lost_it_goes_on_from_the_last_checkpoint(allocation):
    script = allocation.start(str(allocation.spec))
    job = allocation.trains(members=2, beyond=20)
    os.killpg(script.pid, signal.SIGKILL)  # the script, the coordinator and the agents; the rest ends with these
    script.wait()

    script = allocation.start(str(allocation.spec))
    assert script.wait(LIMIT) == 0, allocation.log.read_text()
    log = allocation.log.read_text()
    assert re.search(rf"{job.id}: the last generation is lost: from the checkpoint of step \d+0 on w", log), log
    assert f"{job.id}: completed at step 120" in log


@pytest.mark.cluster
def test_what_is_cancelled_is_not_requeued(allocation):
    script = allocation.start(str(allocation.spec))
    until(lambda: allocation.job(), "the job is submitted")
    script.send_signal(signal.SIGTERM)
    assert script.wait(LIMIT) == 0, allocation.log.read_text()
    assert not (allocation.standin / "requeued").exists()


def test_a_job_that_is_not_there_is_told_in_one_line(allocation):
    script = allocation.start("no-such.yaml")
    assert script.wait(LIMIT) == 2
    assert allocation.log.read_text() == "regroup.sbatch: there is no job in no-such.yaml\n"


def test_outside_of_slurm_it_says_so(tmp_path):
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    done = subprocess.run(["bash", str(SCRIPT)], env=environ, capture_output=True, text=True)
    assert done.returncode != 0
    assert "SLURM_JOB_ID: is not set: hand this to sbatch" in done.stderr


def test_bash_can_read_it_and_so_can_shellcheck():
    assert subprocess.run(["bash", "-n", str(SCRIPT)], capture_output=True).returncode == 0
    if shutil.which("shellcheck") is None:
        pytest.skip("NOT LOOKED AT by shellcheck, which is not here")
    found = subprocess.run(["shellcheck", str(SCRIPT)], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout


def test_what_it_asks_of_slurm_keeps_the_job_alive_and_brings_it_back():
    asked = set(re.findall(r"^#SBATCH --([a-z-]+)", SCRIPT.read_text(), re.MULTILINE))
    assert {"no-kill", "requeue", "signal", "open-mode"} <= asked
    assert "kill-on-bad-exit" not in SCRIPT.read_text()
