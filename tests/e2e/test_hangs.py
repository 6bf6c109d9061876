"""A task whose code hangs for ever, while its trainer's other threads go on and answer whatever they are asked."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from regroup.worker.order import Order

pytestmark = pytest.mark.cluster

STEP = 3  # the step that consumes the bad sample
BAD = next(int(index) for index in Order(64, seed=0, epoch=0).at(range(8 * STEP, 8 * STEP + 8)) if index >= 16)
LIMITS = {"halt_limit": "2", "detached_limit": "6", "detached_margin": "1"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, serve: Any) -> Iterator[Any]:
    with serve(tmp_path_factory.mktemp("cluster"), workers=2, **LIMITS) as served:
        yield served


def test_whoever_hangs_once_is_evicted_and_the_job_completes(served: Any, tmp_path: Path) -> None:
    fields = {"options": {"bad": BAD, "once": str(tmp_path / "once")}, "step_timeout": 2.0}
    job = served.ended(served.submit("faulty:HangsOnce", min_workers=1, max_workers=2, **fields))
    assert (job.phase, job.step) == ("completed", 8)
    evicted = [event.reason for event in served.client.events(job.id) if event.kind == "evicted"]
    assert len(evicted) == 1
    assert " hangs in phase compute since " in evicted[0]
    assert sum(worker.errors for worker in served.client.workers()) == 1


@pytest.mark.parametrize("workers", [1, 2])
def test_a_task_that_hangs_wherever_it_is_tried_fails_and_no_worker_is_blamed(served: Any, workers: int) -> None:
    for worker in served.client.workers():
        served.client.clear(worker.name)
    job = served.submit("faulty:Hangs", options={"bad": BAD}, max_workers=workers, step_timeout=1.0)
    job = served.client.wait(job.id, timeout=90.0, interval=0.1)
    assert job.phase == "failed"
    assert job.reason.startswith(f"the task failed in step {STEP}, shard ")
    assert job.reason.endswith("it hung, and was evicted")
    assert not any(worker.quarantined for worker in served.client.workers())
    served.all_serve()


def test_a_job_whose_task_hangs_can_be_stopped(served: Any, until: Any) -> None:
    job = served.submit("faulty:Hangs", options={"bad": BAD}, max_workers=1, step_timeout=1.0)
    said = "did not come back from the task's code"
    until(lambda: said in served.client.job(job.id).reason, "it is told what hangs")
    served.client.stop(job.id)
    assert served.ended(job).phase == "stopped"
    served.all_serve()
