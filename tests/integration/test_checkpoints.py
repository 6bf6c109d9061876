"""Checkpoints beside the training, on real processes: they go on with it, and a total loss costs what came after."""

import os
from pathlib import Path
from typing import Any

import pytest

from regroup.core.jobs import Version
from regroup.worker.checkpoint import read
from regroup.worker.storage import Storage

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

CURVE = {"steps": 80, "global_batch": 24, "shards": 12, "seed": 3}


def counted(trial: Any) -> list[int]:
    """The steps of the checkpoints that count, in their order."""
    return [event.data["step"] for event in trial.events("checkpoint")]


def until_counted(trial: Any, *steps: int) -> None:
    trial.bed.until(lambda: counted(trial) == [*steps], f"the checkpoints of steps {steps} count")


def test_every_so_many_steps_the_state_is_durable_and_the_training_goes_on(trial: Any, tmp_path: Path) -> None:
    trial.submit(**CURVE, checkpoint_every=20, gates=(30, 50, 70), min_workers=3)
    for gate in (30, 50, 70):  # so that none comes due while the one before it is being written
        until_counted(trial, *range(20, gate, 20))
        trial.open(gate)
    job = trial.finish()
    assert counted(trial) == [20, 40, 60, 80]  # the last one as it was ordered
    assert job.generation == 2  # no round but the first and the last one: nobody halted for a checkpoint
    tree, meta = read(Storage(str(tmp_path), tmp_path), job.id, job.checkpoint)
    assert (job.checkpoint.version, tree["step"], meta["task"]) == (Version(1, 80), 80, "disturbed:Curve")


def test_when_all_workers_die_at_once_the_job_goes_on_from_its_last_checkpoint(trial: Any, bed: Any) -> None:
    calm = bed.trial(trial._folder / "calm").submit(**CURVE, max_workers=1)
    calm.finish()
    bed.rest()
    trial.submit(**CURVE, checkpoint_every=20, gates=(1, 30, 50))
    trial.until_all(3)
    trial.open(1)
    until_counted(trial, 20)
    trial.open(30)
    until_counted(trial, 20, 40)
    trial.until_committed(50)
    bed.kill_trainers("w0", "w1", "w2")
    trial.until(lambda job: job.restarts == 1, "it begins again")
    trial.finish()
    (back,) = trial.events("rolled_back")
    assert back.data["base_step"] == 40
    assert back.reason.startswith("the last generation is lost: from the checkpoint of step 40 on ")
    difference = max(abs(one - other) for one, other in zip(trial.curve(), calm.curve(), strict=True))
    assert difference <= 1e-12


def test_a_checkpoint_that_cannot_be_written_is_told_and_stops_nothing(trial: Any) -> None:
    trial.submit(**CURVE, checkpoint_every=20, gates=(30, 70))
    until_counted(trial, 20)
    folder = Path(trial.now.checkpoint.path).parent
    away = folder.rename(folder.with_name(f"{folder.name}-away"))
    os.mkfifo(folder)  # neither a folder nor anything that could become one
    trial.open(30)
    trial.bed.until(lambda: bool(trial.events("checkpoint_failed")), "the failure is told")
    folder.unlink()
    away.rename(folder)
    job = trial.finish()
    told = trial.events("checkpoint_failed")[0]
    assert "could not write the checkpoint of step 40, and trains on" in told.reason
    assert job.restarts == 0


def test_only_the_newest_files_are_kept(trial: Any) -> None:
    trial.submit(**CURVE, checkpoint_every=20, keep_last=2, gates=(30, 50, 70), min_workers=3)
    for gate in (30, 50, 70):
        until_counted(trial, *range(20, gate, 20))
        trial.open(gate)
    job = trial.finish()
    kept = [job.checkpoint, *job.older]
    assert [one.version.step for one in kept] == [80, 60]
    folder = Path(job.checkpoint.path).parent
    named = {one.path for one in kept}
    trial.bed.until(lambda: {str(path) for path in folder.iterdir()} == named, "the others are deleted")


def pause_at(trial: Any, gate: int) -> None:
    """Ask for it while the job waits there: it goes on to its next step, and rests."""
    trial.until_committed(gate)
    trial.client.pause(trial.id)
    trial.open(gate)
    trial.client.wait(trial.id, timeout=90.0, paused=True)


def truncate(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flip(content: bytes) -> bytes:
    return content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]


@pytest.mark.parametrize("harm", [truncate, flip])
def test_a_damaged_checkpoint_is_struck_and_the_one_before_it_used(trial: Any, bed: Any, harm: Any) -> None:
    calm = bed.trial(trial._folder / "calm").submit(**CURVE, max_workers=1)
    calm.finish()
    bed.rest()
    trial.submit(**CURVE, checkpoint_every=20, gates=(30, 50))
    until_counted(trial, 20)
    trial.open(30)
    until_counted(trial, 20, 40)
    pause_at(trial, 50)
    newest = trial.now.checkpoint
    assert [one.version.step for one in trial.now.older] == [40, 20]
    content = harm(Path(newest.path).read_bytes())
    Path(newest.path).write_bytes(content)
    trial.client.resume(trial.id)
    job = trial.finish()  # by its audit, too
    (told,) = trial.events("struck")
    step = newest.version.step
    assert told.reason.startswith(f"the checkpoint of step {step} is struck, and the job goes back to step 40: ")
    assert [one.checkpoint for one in job.struck] == [newest]
    assert trial.events("rolled_back")[-1].data["base_step"] == 40
    assert job.restarts == 0
    assert Path(newest.path).read_bytes() == content  # kept, for people to look at
    difference = max(abs(one - other) for one, other in zip(trial.curve(), calm.curve(), strict=True))
    assert difference <= 1e-12


def test_a_storage_that_is_away_strikes_nothing(trial: Any) -> None:
    trial.submit(**CURVE, gates=(30,))
    pause_at(trial, 30)
    newest = trial.now.checkpoint
    folder = Path(newest.path).parent
    away = folder.rename(folder.with_name(f"{folder.name}-away"))
    trial.client.resume(trial.id)
    why = trial.until(lambda job: "no worker can read" in job.reason and job.reason, "all workers were asked")
    assert "its folder is not there" in why
    away.rename(folder)
    job = trial.finish()
    assert (job.struck, job.restarts) == ((), 0)


def test_the_best_are_kept_besides_the_newest_with_their_evaluation_loss(trial: Any) -> None:
    trial.submit(**CURVE, evaluate_every=20, checkpoint_every=20, keep_last=1, keep_best=1, gates=(30, 50, 70))
    seen = {}
    for gate in (30, 50, 70):
        until_counted(trial, *range(20, gate, 20))
        seen[gate - 10] = trial.now.checkpoint
        trial.open(gate)
    job = trial.finish()
    seen[80] = job.checkpoint
    losses = {step: found["loss"] for step, found in trial.metrics().items()}
    assert {step: one.score for step, one in seen.items()} == losses
    best = min(losses, key=lambda step: (losses[step], -step))
    assert {one.version.step for one in (job.checkpoint, *job.older)} == {80, best}
    assert Path(seen[best].path).exists()


def test_a_regroup_in_the_middle_of_an_evaluation_leaves_no_checkpoint_out(trial: Any) -> None:
    killed = {"at": "evaluate", "step": 40, "do": "kill"}
    trial.submit(**CURVE, evaluate_every=20, checkpoint_every=20, faults=(killed,), gates=(30, 50, 70), min_workers=2)
    until_counted(trial, 20)
    trial.open(30)
    trial.until_committed(50)
    assert trial.done()["step"] == 40
    until_counted(trial, 20, 40)
    trial.open(50)
    until_counted(trial, 20, 40, 60)
    trial.open(70)
    job = trial.finish()
    scores = {one.version.step: one.score for one in (job.checkpoint, *job.older)}
    losses = {step: found["loss"] for step, found in trial.metrics().items()}
    assert losses.keys() == {20, 40, 60, 80}, "the evaluation itself was completed"
    assert scores == {step: losses[step] for step in (80, 60, 40)}
