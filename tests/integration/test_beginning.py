"""Jobs that begin from another job's checkpoint, and jobs that go on with other workers, on real processes."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from regroup.client.errors import Conflict
from regroup.core.jobs import JobPhase

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

CURVE = {"steps": 60, "global_batch": 24, "shards": 12, "seed": 3}


@pytest.fixture(scope="module")
def calm(bed: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A job that nothing disturbs, on one worker; it leaves checkpoints of each 20 steps."""
    made = bed.trial(tmp_path_factory.mktemp("calm"))
    made.submit(**CURVE, max_workers=1, checkpoint_every=20, keep_last=9, gates=(30, 50))
    for gate in (30, 50):  # so that none comes due while the one before it is being written
        steps = [*range(20, gate, 20)]
        bed.until(partial(is_durable, made, steps), f"the states of steps {steps} are durable")
        made.open(gate)
    made.finish()
    return made


def is_durable(trial: Any, steps: list[int]) -> bool:
    return [event.data["step"] for event in trial.events("checkpoint")] == steps


def difference(one: list[float], other: list[float]) -> float:
    return max(abs(mine - its) for mine, its in zip(one, other, strict=True))


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_job_begun_from_another_ones_checkpoint_trains_as_that_one_did(trial: Any, calm: Any, workers: int) -> None:
    count = {"min_workers": workers, "max_workers": workers}
    trial.submit(**CURVE | {"shards": None}, **count, begin_from={"job": calm.id, "step": 20})
    job = trial.finish()  # by its audit, too
    assert (job.beginning.job, job.beginning.step, job.shards) == (calm.id, 20, 12)
    assert job.history[0].base_step == 20
    assert difference(trial.curve(), calm.curve()[20:]) <= 1e-12
    assert Path(job.beginning.path).parent != Path(job.checkpoint.path).parent


def test_the_state_that_it_begins_with_is_evaluated_anew_as_the_point_of_the_step_before(trial: Any, calm: Any) -> None:
    trial.submit(**CURVE, evaluate_every=20, begin_from={"job": calm.id, "step": 40})
    trial.finish()
    first, *own = trial.client.points(trial.id)
    assert (first.step, first.loss, first.samples) == (39, None, 0), "that step is the other job's"
    assert first.metrics.keys() == {"loss"}
    assert [point.step for point in own] == list(range(40, 60))
    assert trial.metrics().keys() == {40, 60}


def test_it_begins_again_there_when_all_workers_die_before_its_first_checkpoint(
    trial: Any, calm: Any, bed: Any
) -> None:
    trial.submit(**CURVE, begin_from={"job": calm.id, "step": 40}, gates=(50,), min_workers=3)
    trial.until_committed(50)
    bed.kill_trainers("w0", "w1", "w2")
    trial.until(lambda job: job.restarts == 1, "it begins again")
    trial.finish()
    (back,) = trial.events("rolled_back")
    assert (back.data["base_step"], calm.id in back.reason) == (40, True)
    assert difference(trial.curve(), calm.curve()[40:]) <= 1e-12


@pytest.mark.parametrize("workers", [1, 3])
def test_a_job_that_is_paused_on_two_workers_goes_on_with_another_number(
    trial: Any, calm: Any, bed: Any, workers: int
) -> None:
    away = {"w0", "w1", "w2"}

    def only(*wanted: str) -> None:
        """Let these workers alone have anything to do."""
        for name in sorted(away):
            bed.client.admit(name) if name in wanted else bed.client.drain(name)

    try:
        only("w0", "w1")
        trial.submit(**CURVE, options={"together": max(2, workers)}, gates=(1, 20, 40))
        trial.until_all(2)
        trial.open(1)
        trial.until_committed(20)
        trial.client.pause(trial.id)
        trial.open(20)
        trial.client.wait(trial.id, timeout=90.0, paused=True)
        assert trial.now.step >= 20
        only(*["w2", "w1", "w0"][:workers])
        trial.client.resume(trial.id)
        trial.until_all(workers)
        trial.open(40)
        trial.finish()
    finally:
        only(*away)
    sizes = [len(event.data["workers"]) for event in trial.events("form")]
    assert 2 in sizes
    assert sizes[-1] == workers, trial.story()
    assert difference(trial.curve(), calm.curve()) <= 1e-12


def test_a_file_that_is_gone_fails_the_job_which_names_it(trial: Any, calm: Any) -> None:
    path = Path(calm.now.checkpoint.path)
    away = path.rename(path.with_suffix(".away"))
    try:
        trial.submit(**{**CURVE, "steps": 70}, begin_from={"job": calm.id})
        job = trial.client.wait(trial.id, timeout=90.0)
    finally:
        away.rename(path)
    assert job.phase is JobPhase.FAILED
    assert job.reason.startswith("the checkpoint of step 60 that it begins from is damaged: ")
    assert str(path) in job.reason


def test_a_model_of_another_shape_fails_the_job_with_both_shapes(trial: Any, bed: Any) -> None:
    small = {"steps": 4, "global_batch": 16, "shards": 4}
    first = trial.client.submit(task="digits", options={"hidden": [8]}, **small).id
    trial.client.wait(first, timeout=90.0)
    begins = {**small, "steps": 8, "begin_from": {"job": first}}
    other = trial.client.submit(task="digits", options={"hidden": [9]}, **begins).id
    job = trial.client.wait(other, timeout=90.0)
    assert job.phase is JobPhase.FAILED
    shapes = "the model's 0.weight is float32 of shape (9, 64) here, and float32 of shape (8, 64) in the checkpoint"
    assert shapes in job.reason
    slower = trial.client.submit(task="digits", options={"hidden": [8], "learning_rate": 1e-4}, **begins).id
    assert trial.client.wait(slower, timeout=90.0).phase is JobPhase.COMPLETED
    fewer = trial.client.submit(task="digits", options={"hidden": [8], "holdout": 300}, **begins).id
    job = trial.client.wait(fewer, timeout=90.0)
    assert job.phase is JobPhase.FAILED
    assert "the dataset has 1497 samples, and that of job" in job.reason
    with pytest.raises(Conflict, match="keeps no checkpoint of step 3; it keeps those of steps 4"):
        trial.client.submit(task="digits", **{**begins, "begin_from": {"job": first, "step": 3}})
