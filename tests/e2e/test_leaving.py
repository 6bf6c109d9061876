"""Workers that are to go, as their operators see it: by SIGTERM, one after the other, all at once, and drained."""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from regroup.client.errors import RegroupError

pytestmark = pytest.mark.cluster

SECONDS = 15.0  # far less than REGROUP_LEAVE_LIMIT is here: whoever ends by then handed over


@pytest.fixture
def served(serve: Any, tmp_path: Path) -> Iterator[Any]:
    """Three workers that nobody starts again."""
    with serve(tmp_path / "cluster", workers=3, leave_limit="60") as served:
        for agent in served.cluster.agents.values():
            agent.restart = False
        yield served


@pytest.fixture
def training(served: Any) -> Any:
    """A job that trains on all three."""
    job = served.submit("faulty:Slow", steps=100_000, global_batch=12, min_workers=1, max_workers=3)
    return all_train(served, job)


def all_train(served: Any, job: Any, workers: int = 3) -> Any:
    def there() -> Any:
        found = served.client.job(job.id)
        assert not found.ended, found.reason
        return found if found.phase == "running" and len(found.members) == workers and found.step else None

    return _until(there)


def _until(condition: Callable[[], Any], limit: float = 60.0) -> Any:
    deadline = time.monotonic() + limit
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
    return found


def leave(served: Any, name: str) -> float:
    """Seconds from SIGTERM to the exit, which is a good one. All its processes get it, as where systemd stops it."""
    process = served.cluster.agents[name].process
    began = time.monotonic()
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(SECONDS) == 0
    return time.monotonic() - began


def in_order(served: Any, job: Any) -> None:
    """Each step of the job was committed once: no generation began below where the one before it ended."""
    told = served.cli("audit", job.id)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "each exactly once" in told.stdout
    kinds = [event.kind for event in served.client.events(job.id)]
    assert not {"rolled_back", "exited", "evicted"} & set(kinds)
    assert [worker.errors for worker in served.client.workers()] == [0, 0, 0]


def test_a_rolling_restart_loses_no_step_and_does_none_twice(served: Any, training: Any) -> None:
    steps = [training.step]
    for name in ("w0", "w1", "w2"):
        leave(served, name)
        steps.append(served.client.job(training.id).step)
        served.cluster.start_worker(name)
        served.cluster.agents[name].restart = False
        steps.append(all_train(served, training).step)
    assert steps == sorted(steps)
    job = served.client.job(training.id)
    assert job.restarts == 0
    assert job.generation >= 6
    served.client.stop(job.id)
    ended = served.ended(job)
    assert ended.step >= steps[-1]
    in_order(served, job)
    assert {*done(served, job).values()} == {1}, "a step was begun twice"
    losses = [point.loss for point in served.client.points(job.id)]
    assert losses == pytest.approx(undisturbed(served, ended), rel=1e-5)


def done(served: Any, job: Any) -> Counter[tuple[int, int]]:
    """How often each shard of each step was computed, from the workers' own records."""
    found: Counter[tuple[int, int]] = Counter()
    for file in (served.cluster.data_dir / "records" / job.id).iterdir():
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        found.update((line["read"], line["shard"]) for line in lines if "read" in line)
    return found


def undisturbed(served: Any, job: Any) -> list[float]:
    """The losses of the same job, which nobody disturbed."""
    other = served.ended(served.submit("faulty:Sound", steps=job.step, global_batch=12, max_workers=3))
    return [point.loss for point in served.client.points(other.id)]


def test_a_whole_cluster_that_is_ended_goes_on_at_the_very_step(served: Any, training: Any) -> None:
    for agent in served.cluster.agents.values():
        agent.process.send_signal(signal.SIGTERM)
    assert [agent.process.wait(SECONDS) for agent in served.cluster.agents.values()] == [0, 0, 0]
    rests = _until(lambda: (job := served.client.job(training.id)).phase == "queued" and job)
    assert rests.checkpoint.version.step == rests.step >= training.step
    for name in ("w0", "w1", "w2"):
        served.cluster.start_worker(name)
    again = all_train(served, training)
    resumed = [link for link in again.history if link.base_step == rests.step]
    assert resumed
    assert again.restarts == 0
    served.client.stop(again.id)
    served.ended(again)
    in_order(served, again)
    assert {*done(served, again).values()} == {1}, "a step was begun twice"


def test_a_drained_worker_stays_and_gets_nothing_until_it_is_admitted(served: Any, training: Any) -> None:
    done = served.cli("drain", "w1", "--wait")
    assert (done.returncode, done.stdout) == (0, "w1 is drained: it has nothing to do any more\n")
    drained = served.client.worker("w1")
    assert (drained.job, drained.drained, drained.healthy) == (None, True, True)
    assert {member.worker for member in all_train(served, training, 2).members} == {"w0", "w2"}
    assert served.cluster.agents["w1"].process.poll() is None
    served.cluster.coordinator.process.kill()
    _until(lambda: answers(served))
    os.kill(drained.pid, signal.SIGKILL)
    served.cluster.agents["w1"].process.wait()
    served.cluster.start_worker("w1")
    _until(lambda: (now := served.client.worker("w1")).healthy and now.pid != drained.pid)
    assert served.client.worker("w1").job is None
    assert served.cli("admit", "w1").returncode == 0
    all_train(served, training)
    served.client.stop(training.id)


def answers(served: Any) -> bool:
    try:
        return bool(served.client.cluster().healthy == 3)
    except RegroupError:
        return False


def test_an_agent_that_is_asked_twice_or_that_nobody_answers_ends_all_the_same(served: Any, training: Any) -> None:
    process = served.cluster.agents["w0"].process
    os.kill(served.client.worker("w1").trainer, signal.SIGSTOP)  # no boundary is reached
    process.send_signal(signal.SIGTERM)
    _until(lambda: served.client.worker("w0").leaving)
    process.send_signal(signal.SIGINT)
    assert process.wait(3.0) == 0
    os.kill(served.cluster.coordinator.process.pid, signal.SIGSTOP)
    began = time.monotonic()
    assert leave(served, "w2") < 12.0
    assert time.monotonic() - began > 3.0
    os.kill(served.cluster.coordinator.process.pid, signal.SIGCONT)
