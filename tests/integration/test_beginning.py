"""Jobs that begin from another job's checkpoint, and jobs that go on with other workers, on real processes."""

from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

CURVE = {"steps": 60, "global_batch": 24, "shards": 12, "seed": 3}


@pytest.fixture(scope="module")
def calm(bed: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A job that nothing disturbs, on one worker; it leaves checkpoints of each 20 steps."""
    made = bed.trial(tmp_path_factory.mktemp("calm")).submit(**CURVE, max_workers=1, checkpoint_every=20, keep_last=9)
    made.finish()
    return made


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
