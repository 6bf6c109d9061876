"""Jobs that rest and go on, as users see them: workers for others meanwhile, and a checkpoint that is not there."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.cluster


@pytest.fixture
def hurry(tmp_path: Path) -> Path:
    """Once there, the job goes to its end as fast as it can."""
    return tmp_path / "hurry"


@pytest.fixture
def training(served: Any, hurry: Path) -> Iterator[Any]:
    """A job that trains on both workers."""
    fields = {"options": {"file": str(hurry)}, "steps": 60, "min_workers": 1, "max_workers": 2}
    yield served.after(served.submit("faulty:SlowUntil", **fields), 3, workers=2)
    served.stop_all()


def run(served: Any, *arguments: str) -> str:
    done = served.cli(*arguments)
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def test_the_workers_of_a_paused_job_serve_others_and_it_goes_on_with_fewer(
    served: Any, training: Any, hurry: Path
) -> None:
    last = run(served, "pause", training.id, "--wait").splitlines()[-1]
    paused = served.client.job(training.id)
    assert f"paused      at step {paused.step}; its state is in {paused.checkpoint.path}" in last
    served.all_serve()

    other = served.submit("faulty:Slow", steps=10_000)
    served.after(other, 1)
    assert run(served, "resume", training.id).startswith(training.id)
    again = served.after(training, paused.step + 3)
    assert len(again.members) == 1
    assert again.history[-1].base_step == paused.step
    served.client.stop(other.id)
    hurry.touch()
    done = served.ended(training)
    assert (done.phase, done.step, done.restarts) == ("completed", 60, 0)
    assert "each exactly once" in run(served, "audit", training.id)


def test_a_held_job_keeps_its_workers_until_it_goes_on(served: Any, training: Any, hurry: Path) -> None:
    run(served, "pause", training.id, "--hold", "--wait")
    held = served.client.job(training.id)
    assert (held.phase, held.checkpoint, len(held.workers)) == ("paused", None, 2)
    waiting = served.submit("faulty:Sound", steps=3)
    assert served.client.job(waiting.id).phase == "queued"
    hurry.touch()
    run(served, "resume", training.id)
    assert served.ended(training).step == 60
    assert served.ended(waiting).phase == "completed"


def test_a_coordinator_that_dies_leaves_a_paused_job_paused(
    served: Any, training: Any, hurry: Path, until: Any
) -> None:
    run(served, "pause", training.id, "--wait")
    served.cluster.coordinator.process.kill()
    until(lambda: served.cli("job", training.id).returncode == 0, "the coordinator is back")
    assert served.client.job(training.id).phase == "paused"
    hurry.touch()
    run(served, "resume", training.id)
    assert served.ended(training).step == 60


def test_without_its_checkpoint_a_job_waits_and_goes_on_once_it_is_back(
    served: Any, training: Any, hurry: Path, until: Any
) -> None:
    run(served, "pause", training.id, "--wait")
    file = Path(served.client.job(training.id).checkpoint.path)
    file.rename(file.with_suffix(".away"))
    run(served, "resume", training.id)
    # It is tried again and again, and says then whose turn it is.
    until(lambda: f"{file}" in (waiting := served.client.job(training.id)).reason and waiting, "nobody can read it")
    file.with_suffix(".away").rename(file)
    run(served, "pause", training.id, "--wait")
    hurry.touch()
    run(served, "resume", training.id)
    assert served.ended(training).step == 60


def test_checkpoints_are_listed_newest_first_and_a_damaged_one_with_what_is_wrong(
    served: Any, hurry: Path, until: Any
) -> None:
    fields = {"options": {"file": str(hurry)}, "steps": 40, "max_workers": 2, "checkpoint_every": 4, "keep_last": 2}
    job = served.after(served.submit("faulty:SlowUntil", **fields), 10)
    run(served, "pause", job.id, "--wait")
    newest, older = listed(served, job.id)
    assert newest["version"]["step"] > older["version"]["step"]
    assert [newest["damage"], older["damage"]] == [None, None]
    assert newest["path"] in run(served, "checkpoints", job.id)
    with open(newest["path"], "r+b") as file:
        file.truncate(newest["bytes"] // 2)
    hurry.touch()
    run(served, "resume", job.id)
    assert served.ended(job).phase == "completed"
    (struck,) = [each for each in listed(served, job.id) if each["damage"]]
    assert struck["path"] == newest["path"]
    assert f"damaged: {struck['damage']}" in run(served, "checkpoints", job.id)
    assert "each exactly once" in run(served, "audit", job.id)
    served.stop_all()


def listed(served: Any, job: str) -> Any:
    return json.loads(run(served, "checkpoints", job, "--json"))
