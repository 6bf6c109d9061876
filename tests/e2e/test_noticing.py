"""Whoever hangs is named with the phase and the limit that its agent learned, and the others go on without it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from regroup.lab.trainers import trainer_of

pytestmark = pytest.mark.cluster

FLOOR = 1.0  # seconds; all passes here take milliseconds, so each learned limit is this
BROKEN_IN = FLOOR + 3.0  # seconds from the beginning of a hang until the others train on
CHANCE = 5.5  # seconds that a connection must have lasted until somebody is given up: half of the Halt's limit


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, serve: Any) -> Iterator[Any]:
    """The Halt's limit stays ten seconds: whoever hangs is not waited for that long."""
    with serve(tmp_path_factory.mktemp("cluster"), workers=2, hang_floor=str(FLOOR), error_limit="100") as served:
        time.sleep(CHANCE)
        yield served


@pytest.fixture
def served(cluster: Any) -> Iterator[Any]:
    """No test leaves its job behind: it would keep the workers of the next."""
    yield cluster
    cluster.stop_all()


def trains(served: Any, folder: Path, place: str) -> Any:
    """A job that both workers train, long enough for its limits to be learned."""
    options = {"folder": str(folder), "place": place}
    job = served.submit("faulty:HangsWhenTold", options=options, steps=100_000, min_workers=1, max_workers=2)
    both = served.after(job, 0, workers=2)
    return served.after(job, both.step + 30)


def event(served: Any, until: Any, job: Any, kind: str, since: float, worker: str | None = None) -> Any:
    def found() -> Any:
        events = served.client.events(job.id)
        mine = (one for one in events if one.kind == kind and one.at >= since and worker in (None, one.worker))
        return next(mine, None)

    return until(found, f"the timeline tells of {kind}")


def goes_on(served: Any, until: Any, job: Any, began: float, worker: str) -> Any:
    """What the timeline says of the hang; the others train on in time, and whoever hung comes back as another."""
    hang = event(served, until, job, "hang", began, worker)
    assert hang.data["limit"] == FLOOR
    regrouped = event(served, until, job, "regrouped", began)
    assert regrouped.at - began < BROKEN_IN
    evicted = event(served, until, job, "evicted", began, worker)
    assert evicted.reason.startswith(f"{worker} is evicted: it hangs in phase {hang.data['phase']} since ")
    step = served.client.job(job.id).step
    served.after(job, step + 3)
    until(lambda: len(served.client.job(job.id).members) == 2, "it is back")
    others = [one.worker for one in served.client.events(job.id) if one.kind == "evicted"]
    assert others == [worker]
    return hang


def may_be_looked_into(pid: int | None) -> bool:
    """Whether the kernel lets a process of this user, which is no ancestor, read that one's memory."""
    command = [sys.executable, "-c", f"open('/proc/{pid}/mem', 'rb')"]
    return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0


@pytest.mark.parametrize(
    ("place", "phase"),
    [("loss", "compute"), ("backward", "compute"), ("optimizer", "optimizer"), ("data", "data")],
)
def test_who_hangs_in_the_users_code_is_named_and_the_others_go_on(
    served: Any, until: Any, tmp_path: Path, place: str, phase: str
) -> None:
    job = trains(served, tmp_path, place)
    looked_into = may_be_looked_into(trainer_of(served.cluster.data_dir, "w1"))
    (tmp_path / "w1").touch()
    began = until(lambda: (tmp_path / "hangs").exists() and (tmp_path / "hangs").stat().st_mtime, "it hangs")
    hang = goes_on(served, until, job, began, "w1")
    assert hang.data["phase"] == phase
    assert ("it waits for its data" in hang.reason) == (place == "data")
    stacks = event(served, until, job, "stacks", began, "w1").data["stacks"]
    if looked_into:
        assert "meet (faulty.py:" in stacks
    else:
        assert stacks.startswith("no stacks: ")
    assert str(tmp_path) not in stacks
    assert stacks.splitlines()[-1] not in served.cli("events", job.id).stdout
    assert stacks.splitlines()[-1] in served.cli("events", job.id, "--stacks").stdout
    served.client.stop(job.id)
    assert served.ended(job).phase == "stopped"


def test_a_trainer_that_is_stopped_stands_still_and_the_others_go_on(served: Any, until: Any, tmp_path: Path) -> None:
    job = trains(served, tmp_path, "nowhere")
    pid = trainer_of(served.cluster.data_dir, "w0")
    assert pid is not None
    began = time.time()
    os.kill(pid, signal.SIGSTOP)
    hang = goes_on(served, until, job, began, "w0")
    assert "its process stands still" in hang.reason
    assert hang.data["seconds"] >= FLOOR  # in its phase, which it may have begun before it was stopped
    served.client.stop(job.id)
    assert served.ended(job).phase == "stopped"


def test_an_agent_that_was_stopped_accuses_nobody(served: Any, until: Any, tmp_path: Path) -> None:
    job = trains(served, tmp_path, "nowhere")
    began = time.time()
    agent = served.cluster.agents["w1"].process.pid
    trainer = trainer_of(served.cluster.data_dir, "w1")
    assert trainer is not None
    for pid in (agent, trainer):  # as where a machine sleeps
        os.kill(pid, signal.SIGSTOP)
    time.sleep(2 * FLOOR)
    for pid in (trainer, agent):
        os.kill(pid, signal.SIGCONT)
    step = served.client.job(job.id).step
    served.after(job, step + 10)
    kinds = {one.kind for one in served.client.events(job.id) if one.at >= began}
    assert not kinds & {"hang", "halt", "evicted"}
    served.client.stop(job.id)
    assert served.ended(job).phase == "stopped"


def test_who_is_left_to_end_the_last_evaluation_alone_is_not_accused_and_tells_its_metrics(
    served: Any, tmp_path: Path
) -> None:
    """Each chunk takes it longer than the limit that was learned together; all that are left take three times that."""
    began = time.time()
    options = {"folder": str(tmp_path), "seconds": 0.7 * FLOOR}
    fields = {"shards": 2, "steps": 4, "evaluate_every": 2, "min_workers": 2, "max_workers": 2}
    job = served.ended(served.submit("faulty:LeftInItsEvaluation", options=options, **fields))
    assert (tmp_path / "left").exists()
    assert job.phase == "completed", job.reason
    kinds = {one.kind for one in served.client.events(job.id) if one.at >= began}
    assert not kinds & {"hang", "evicted"}
    last = [point for point in served.client.points(job.id) if point.step == 3][-1]
    assert job.checkpoint.score == last.metrics["loss"]


def test_an_evaluation_may_take_longer_than_a_step(served: Any) -> None:
    """Eight chunks of 0.7 s, and a step_timeout of 3 s: the evaluation goes on, and that is told."""
    began = time.time()
    fields = {"shards": 2, "steps": 4, "evaluate_every": 2, "min_workers": 2, "max_workers": 2, "step_timeout": 3.0}
    job = served.ended(served.submit("faulty:SlowEvaluation", options={"seconds": 0.7 * FLOOR}, **fields))
    assert job.phase == "completed", job.reason
    told = [one for one in served.client.events(job.id) if one.at >= began]
    assert not {"hang", "evicted"} & {one.kind for one in told}
    assert [one.data["boundary"] for one in told if one.kind == "halt"] == [False, True], "to begin, and to end"


@pytest.mark.parametrize("what", ["backward", "data"])
def test_a_job_that_becomes_much_slower_is_broken_off_for_it_a_few_times_and_goes_on(
    served: Any, until: Any, tmp_path: Path, what: str
) -> None:
    """A step takes twice the limit that was learned, and far less than step_timeout."""
    options = {"folder": str(tmp_path)}
    fields = {"shards": 2, "micro_batch": 4, "steps": 100_000, "min_workers": 1, "max_workers": 2}
    job = served.submit("faulty:SlowsDown", options=options, **fields)
    both = served.after(job, 0, workers=2)
    served.after(job, both.step + 30)
    began, step = time.time(), served.client.job(job.id).step
    errors = [worker.errors for worker in served.client.workers()]
    (tmp_path / what).touch()
    until(lambda: served.client.job(job.id).step > step + 6, "it makes steps", 60.0)
    regrouped = [one for one in served.client.events(job.id) if one.kind == "regrouped" and one.at >= began]
    assert len(regrouped) <= 4
    assert [worker.errors for worker in served.client.workers()] == errors


@pytest.mark.parametrize("workers", [1, 2])
def test_a_dataset_that_is_slower_than_the_step_timeout_fails_its_job_and_says_so(served: Any, workers: int) -> None:
    job = served.submit("faulty:SlowData", options={"seconds": 1.5}, shards=2, max_workers=workers, step_timeout=1.0)
    job = served.client.wait(job.id, timeout=60.0, interval=0.1)
    assert job.phase == "failed"
    alone = "the task failed in step 0: 3 times no data came in 1 s: make the dataset faster, or step_timeout longer"
    together = "the task failed in step 0, at its data on w0, w1: it waited for its data in vain, and was evicted"
    assert job.reason in ([alone] if workers == 1 else [alone, together])
    events = served.client.events(job.id)
    assert any("it waits for its data" in one.reason for one in events if one.kind == "hang")
