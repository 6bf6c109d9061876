"""Jobs whose checkpoints lie in S3: paused into it, resumed from it, and what happens while it refuses.

Real processes on one machine, and a real S3 API.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fsspec.core import url_to_fs

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

CURVE = {"steps": 80, "global_batch": 24, "shards": 12, "seed": 3}
PACED = {"pace": 0.01}  # time to pause it
FLOOR = 1e-13  # rounding of float64 over some hundred steps, below which a ratio of differences says nothing


@pytest.fixture(scope="module")
def place(s3_environ: dict[str, str], make_bucket: Any) -> Iterator[str]:
    """What the workers' processes inherit leads them to this bucket."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in s3_environ.items():
            patch.setenv(name, value)
        yield f"{make_bucket()}/cluster"


@pytest.fixture(scope="module")
def bed(place: str, make_bed: Any) -> Iterator[Any]:
    with make_bed(checkpoints=place) as made:
        yield made


def difference(one: list[float], other: list[float]) -> float:
    assert len(one) == len(other) == CURVE["steps"]
    return max(abs(mine - theirs) for mine, theirs in zip(one, other, strict=True))


def begun(trial: Any) -> Any:
    """Three workers train a small job, to step 60 at most."""
    trial.submit(**CURVE, options=PACED, gates=(1, 60))
    trial.until_all(3)
    trial.open(1)
    trial.until_committed(10)
    return trial


def test_paused_into_s3_and_resumed_from_it_the_curve_is_the_same(
    bed: Any, trial: Any, place: str, tmp_path: Path
) -> None:
    curves = []
    for number, more in enumerate(({}, {"micro_batch": 5})):
        calm = bed.trial(tmp_path / f"calm-{number}")
        calm.submit(**CURVE, **more, max_workers=1)
        calm.finish()
        curves.append(calm.curve())
        bed.rest()

    paused = begun(trial).pause()
    assert paused.checkpoint.path.startswith(f"{place}/{trial.id}/checkpoint-g")
    bed.rest()  # everybody is free: nobody holds the state any more
    trial.client.resume(trial.id)
    job = trial.finish()
    (formed,) = [event for event in trial.events("form") if event.data["base_step"] == paused.step]
    assert "from the checkpoint" in formed.reason
    assert job.checkpoint.path.startswith(f"{place}/{trial.id}/checkpoint-g")
    assert difference(trial.curve(), curves[0]) <= max(10 * difference(*curves), FLOOR)
    assert not list(bed.cluster.data_dir.rglob("*.safetensors"))
    assert not [path for path in bed.cluster.data_dir.glob("run/*.scratch/*") if path.is_file()]


def test_nothing_stays_in_s3_but_what_is_kept_and_each_file_is_deleted_once(
    bed: Any, trial: Any, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Several are written between two heartbeats."""
    trial.submit(**{**CURVE, "steps": 240}, options=PACED, checkpoint_every=4, keep_last=2, max_workers=2)
    job = trial.finish()
    kept = {one.path for one in (job.checkpoint, *job.older)}
    assert len(kept) == 2
    system, root = url_to_fs(f"{place}/{trial.id}", use_listings_cache=False)
    bed.until(lambda: {f"s3://{path}" for path in system.find(root)} == kept, "others are gone")
    calls = [re.findall(r"(PUT|DELETE) /\S*/(\S+safetensors)", line) for line in caplog.messages]
    put, deleted = ([name for call in calls for done, name in call if done == which] for which in ("PUT", "DELETE"))
    assert len(deleted) > 5
    assert sorted(deleted) == sorted(set(put) - {path.rpartition("/")[2] for path in kept})


def test_while_s3_refuses_a_pause_says_so_keeps_the_state_and_saves_it_later(
    bed: Any, trial: Any, place: str, s3_server: str, s3_environ: dict[str, str]
) -> None:
    httpx.post(f"{s3_server}/moto-api/reset-auth", content=b"0")  # from now on nobody has any rights
    try:
        begun(trial)
        trial.client.pause(trial.id)
        (failed, *_) = trial.until(lambda job: trial.events("save_failed") or None, "nobody could save")
    finally:
        httpx.post(f"{s3_server}/moto-api/reset-auth", content=b"inf")
    assert f"{place}/{trial.id}/checkpoint-g" in failed.reason
    assert "check the credentials" in failed.reason
    told = "".join(path.read_text() for path in bed.cluster.data_dir.glob(f"logs/{trial.id}/*.log")) + trial.story()
    assert s3_environ["AWS_ACCESS_KEY_ID"] not in told
    assert s3_environ["AWS_SECRET_ACCESS_KEY"] not in told
    trial.client.wait(trial.id, timeout=90, interval=0.05, paused=True)
    trial.client.resume(trial.id)
    trial.finish()
