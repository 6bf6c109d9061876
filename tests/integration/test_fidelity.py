"""Whatever dies, and at whatever instant: the loss curve stays, no sample is lost or doubled, replicas stay identical.

Real processes on one machine. Every test ends with `finish`, which demands an exact audit of the workers' own records.
"""

import random
import time
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

FLOOR = 1e-13  # rounding of float64 over some hundred steps, below which a ratio of differences says nothing

MLP = {"hidden": [64, 32], "learning_rate": 1e-2}
DIGITS = {"steps": 200, "global_batch": 48, "shards": 12, "seed": 5}
# BatchNorm over a handful of samples is chaotic by itself: with 4 in a pass, the order of additions alone grows from
# 1e-16 to 1e-3 within 200 steps of one process. With 16 it stays at 1e-15. 1536 images, so that no batch is short.
NORMED = {"dtype": "float64", "dropout": 0.2, "batch_norm": True, "holdout": 261}
WIDE = {**DIGITS, "global_batch": 96, "shards": 6}
CURVE = {"steps": 80, "global_batch": 24, "shards": 12, "seed": 3}
PACED = {"pace": 0.005}  # for kills from outside: time to look, and a gate behind it
Undisturbed = Callable[..., list[list[float]]]


def difference(one: list[float], other: list[float]) -> float:
    assert len(one) == len(other)
    return max(abs(mine - theirs) for mine, theirs in zip(one, other, strict=True))


@pytest.fixture(scope="module")
def undisturbed(bed: Any, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """The loss curves of jobs that nothing happens to, given by task, workers and spec; each job is run once."""
    known: dict[str, list[float]] = {}

    def run(*jobs: dict[str, Any]) -> list[list[float]]:
        running = {}
        for job in jobs:  # all at once, as far as there are workers
            if repr(job) not in known:
                workers = job.get("workers", 1)
                given = {name: value for name, value in job.items() if name != "workers"}
                trial = running[repr(job)] = bed.trial(tmp_path_factory.mktemp("undisturbed"))
                trial.submit(**given, min_workers=workers, max_workers=workers)
        for name, trial in running.items():
            trial.finish()
            known[name] = trial.curve()
        return [known[repr(job)] for job in jobs]

    return run


@pytest.fixture
def started(trial: Any) -> Callable[..., Any]:
    """A small job that three workers train, hardly past its first steps until all three do."""

    def start(**given: Any) -> Any:
        gates, options = given.pop("gates", ()), given.pop("options", {})
        trial.submit(**{**CURVE, **given}, gates=(1, *gates), options={"together": 3, **options})
        trial.until_all(3)
        trial.open(1)
        return trial

    return start


@pytest.fixture
def same_curve(undisturbed: Undisturbed) -> Callable[..., None]:
    """Check that the small job's loss curve is that of an undisturbed run, to rounding."""

    def check(trial: Any, **spec: Any) -> None:
        calm, other = undisturbed({**CURVE, **spec}, {**CURVE, **spec, "micro_batch": 5})
        assert difference(trial.curve(), calm) <= max(10 * difference(calm, other), FLOOR)

    return check


@pytest.fixture(scope="module")
def metrics(bed: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], dict[int, dict[str, float]]]:
    """What the small job measures at each evaluation when nothing happens to it."""

    @cache
    def run() -> dict[int, dict[str, float]]:
        trial = bed.trial(tmp_path_factory.mktemp("metrics"))
        trial.submit(**CURVE, evaluate_every=20, max_workers=1)
        trial.finish()
        return trial.metrics()

    return run


# --- The promise, in full


@pytest.mark.parametrize(
    ("options", "spec", "other", "most"),
    [
        ({"dtype": "float64"}, DIGITS, {"micro_batch": 3}, 1e-9),
        ({"dtype": "float32"}, DIGITS, {"micro_batch": 3}, 1e-4),
        (NORMED, WIDE, {"workers": 2}, 1e-9),
    ],
    ids=["float64", "float32", "dropout-and-batch-norm"],
)
def test_five_kills_and_three_joins_leave_the_loss_curve_as_it_was(
    trial: Any, undisturbed: Undisturbed, options: dict[str, Any], spec: dict[str, Any], other: Any, most: float
) -> None:
    spec = {"task": "disturbed:Digits", **spec, "options": {**MLP, **options}}
    calm, second_calm = undisturbed(spec, {**spec, **other})
    rounding = difference(calm, second_calm)
    trial.bed.rest()

    draw = random.Random(repr(options))
    first, second = ({"at": at, "step": draw.randint(10, 40), "do": "kill"} for at in ("exchange", "optimizer"))
    together = {"options": {**spec["options"], "together": 3}}
    trial.submit(**{**spec, **together}, faults=(first, second), gates=(1, 60, 110, 160, 190))
    trial.until_all(3)
    trial.open(1)
    trial.bed.until(lambda: trial.done(0) and trial.done(1), "two trainers died inside of a step")
    for deaths, gate in enumerate((60, 110, 160), start=2):
        # The job stands at the gate until who died is prepared to join; then it goes on, to the next kill.
        trial.until_committed(gate)
        trial.until_all(3, deaths)
        trial.open(gate)
        trial.until_committed(gate + draw.randint(10, 25))
        time.sleep(draw.uniform(0, 0.01))  # a random instant, not an event
        trial.bed.kill_trainers(draw.choice(["w0", "w1", "w2"]))
    trial.finish()

    trial.points_are_complete()
    deaths = trial.events("exited")
    teams = [set(event.data["workers"]) for event in trial.events("form") if event.at > deaths[0].at]
    assert len(deaths) == 5
    assert sum(bool(later - former) for former, later in pairwise(teams)) >= 3, f"too few joins: {teams}"
    assert trial.identical() > 100
    assert not trial.events("replicas_differed")
    found = difference(trial.curve(), calm)
    print(f"\n{options}: disturbed {found:.2g}, undisturbed {other} {rounding:.2g}")
    assert found <= most
    if options["dtype"] == "float64":
        assert found <= max(10 * rounding, FLOOR)


# --- Kills at exact instants, from inside


@pytest.mark.parametrize("place", ["dataset", "collate", "forward", "backward", "exchange", "optimizer", "applied"])
def test_a_kill_anywhere_in_a_step_changes_nothing(started: Any, same_curve: Any, place: str) -> None:
    trial = started(faults=({"at": place, "step": 25, "do": "kill"},))
    trial.finish()
    assert trial.done()["step"] >= 25
    assert [event.worker for event in trial.events("exited")] == [trial.done()["worker"]]
    assert trial.identical() > 50
    same_curve(trial)
    trial.points_are_complete()


def test_an_agent_and_its_trainer_that_die_together_are_noticed_and_come_back(started: Any, same_curve: Any) -> None:
    trial = started(options=PACED, gates=(60,))
    trial.until_committed(25)
    before = trial.now.generation
    trial.bed.cluster.agents["w1"].kill()
    trial.until_regrouped(before)
    trial.until_all(3)
    trial.finish()
    same_curve(trial)
    assert trial.identical() > 50


def test_two_kills_at_once_of_three_leave_one_that_goes_on(started: Any, same_curve: Any) -> None:
    trial = started(options=PACED, gates=(60,))
    trial.until_committed(25)
    trial.bed.kill_trainers("w0", "w2")
    trial.finish()
    assert trial.now.restarts == 0
    same_curve(trial)


def test_a_worker_with_a_half_done_optimizer_step_has_no_state_and_is_given_one(started: Any, same_curve: Any) -> None:
    """The others have not begun that step, so that only its own word says that w0, which would lead, is not as they."""
    raises = {"at": "optimizer", "step": 25, "do": "raise", "worker": "w0"}
    waits = ({"at": "commit", "step": 25, "do": "wait", "worker": worker} for worker in ("w1", "w2"))
    trial = started(faults=(raises, *waits))
    trial.finish()
    assert [trial.done(number)["step"] for number in range(3)] == [25, 25, 25]
    assert [event.kind for event in trial.events("step_failed", "exited", "replicas_differed")] == ["step_failed"]
    assert trial.identical() > 50
    same_curve(trial)


@pytest.mark.parametrize("place", ["dataset", "collate", "forward", "backward"])
def test_user_code_that_raises_once_costs_a_regroup_and_no_process(started: Any, same_curve: Any, place: str) -> None:
    trial = started(faults=({"at": place, "step": 25, "do": "raise"},))
    trial.finish()
    assert [event.kind for event in trial.events("step_failed", "exited")] == ["step_failed"]
    assert "a planted fault" in trial.now.failures[0].error
    same_curve(trial)


@pytest.mark.parametrize("place", ["state", "load_state"])
def test_a_task_that_raises_while_its_state_is_given_away_is_told_so_and_tried_again(
    started: Any, same_curve: Any, place: str
) -> None:
    trial = started(faults=({"at": place, "step": 1, "do": "raise"},))
    trial.finish()
    assert [event.kind for event in trial.events("step_failed", "exited")] == ["step_failed"]
    assert trial.identical() > 50
    same_curve(trial)


# --- Survivors that did not commit the same step


def test_a_survivor_that_is_a_step_behind_is_given_the_others_state(started: Any, same_curve: Any) -> None:
    """w2 dies after its optimizer step; w0 has done that step as well, w1 has promised not to."""
    dies = {"at": "applied", "step": 25, "do": "kill", "worker": "w2"}
    trial = started(faults=(dies, {"at": "commit", "step": 25, "do": "wait", "worker": "w1"}))
    trial.finish()
    assert (trial.done(0)["step"], trial.done(1)["step"]) == (25, 25)
    assert 26 in [event.data["base_step"] for event in trial.events("form")]
    assert "w1" not in {one.worker for one in trial.applied() if one.step == 25}
    assert trial.audit().void_steps == 0
    assert trial.identical() > 50
    same_curve(trial)


def test_a_step_that_only_the_dead_committed_is_void_and_done_again(started: Any, same_curve: Any) -> None:
    dies = {"at": "forward", "step": 26, "do": "kill", "worker": "w2"}
    waits = ({"at": "commit", "step": 25, "do": "wait", "worker": worker} for worker in ("w0", "w1"))
    trial = started(faults=(dies, *waits))
    trial.finish()
    assert [trial.done(number)["step"] for number in range(3)] == [26, 25, 25]
    assert 25 in [event.data["base_step"] for event in trial.events("form")]
    assert next(one.worker for one in trial.applied() if one.step == 25) == "w2"
    assert trial.audit().void_steps == 1
    assert trial.identical() > 50
    same_curve(trial)


# --- Kills while the others regroup


def test_a_kill_while_the_survivors_of_another_form_is_survived(started: Any, same_curve: Any) -> None:
    first = {"at": "forward", "step": 25, "do": "kill", "worker": "w2"}
    trial = started(faults=(first, {"at": "forming", "step": 25, "do": "kill", "worker": "w1"}), gates=(15,))
    trial.until_all(3)
    trial.finish()
    assert trial.done(0)
    assert trial.done(1)
    assert trial.now.restarts == 0
    assert trial.identical() > 20
    same_curve(trial)


@pytest.mark.parametrize(("place", "worker"), [("giving", "w0"), ("taking", "w2")])
def test_a_kill_in_the_middle_of_a_state_transfer_is_survived(
    started: Any, same_curve: Any, place: str, worker: str
) -> None:
    """w2 dies and comes back; then w0 dies as it gives (it leads, for its name is the first), or w2 as it takes."""
    first = {"at": "forward", "step": 25, "do": "kill", "worker": "w2"}
    trial = started(
        faults=(first, {"at": place, "step": 26 if place == "giving" else 0, "do": "kill", "worker": worker}),
        options={"ballast": 32},
        gates=(40,),
    )
    trial.until_all(3, deaths=1)
    trial.open(40)
    trial.finish()
    assert trial.done(1)
    assert trial.now.restarts == 0
    same_curve(trial)


def test_the_only_holder_of_the_state_dies_while_it_gives_it_away(trial: Any, same_curve: Any) -> None:
    """Then all is lost, which is said, and the job begins anew from the seed."""
    trial.submit(
        **CURVE, options={"ballast": 32}, faults=({"at": "giving", "step": 1, "do": "kill"},), gates=(1,), max_workers=3
    )
    trial.until_all(3)
    trial.finish()
    assert trial.done()
    same_curve(trial)


def test_a_kill_of_the_member_that_saves_the_final_state_has_another_one_save_it(started: Any, same_curve: Any) -> None:
    trial = started(faults=({"at": "state", "step": CURVE["steps"], "do": "kill"},))
    job = trial.finish()
    assert trial.done()
    assert len(trial.events("saving")) == 2
    assert job.checkpoint.version.step == CURVE["steps"]
    same_curve(trial)


# --- All at once, and too few


def test_when_all_die_at_once_the_job_says_so_and_begins_again(started: Any, same_curve: Any) -> None:
    trial = started(options=PACED, gates=(60,))
    trial.until_committed(30)
    trial.bed.kill_trainers("w0", "w1", "w2")
    job = trial.finish()
    assert job.restarts == 1
    trial.points_are_complete()
    (event,) = trial.events("rolled_back")
    assert "no state is left" in event.reason
    assert event.data["base_step"] == 0
    assert trial.audit().void_steps >= 30
    same_curve(trial)


def test_below_min_workers_the_job_waits_with_its_state_in_memory(started: Any, same_curve: Any) -> None:
    trial = started(min_workers=3, options=PACED, gates=(60,))
    trial.until_committed(25)
    trial.bed.kill_trainers("w1")
    trial.finish()
    assert any("kept in memory" in event.reason for event in trial.events("waiting"))
    assert trial.now.restarts == 0
    assert all(len(event.data["workers"]) == 3 for event in trial.events("form"))
    same_curve(trial)


# --- Paused


def test_paused_into_a_checkpoint_and_resumed_the_curve_is_the_same(started: Any, same_curve: Any) -> None:
    trial = started(options=PACED, gates=(60,))
    trial.until_committed(30)
    paused = trial.pause()
    assert (paused.checkpoint.version.step, paused.members) == (paused.step, ())
    trial.bed.rest()  # everybody is free
    trial.client.resume(trial.id)
    trial.finish()
    (formed,) = [event for event in trial.events("form") if event.data["base_step"] == paused.step]
    assert "from the checkpoint" in formed.reason
    assert not trial.events("rolled_back")
    trial.points_are_complete()
    same_curve(trial)


def test_held_in_memory_through_the_death_of_two_the_curve_is_the_same(started: Any, same_curve: Any) -> None:
    trial = started(options=PACED, gates=(60,))
    trial.until_committed(30)
    held = trial.pause(hold=True)
    assert held.checkpoint is None
    trial.bed.kill_trainers("w0", "w2")
    trial.until(lambda job: len(trial.events("exited")) == 2, "both deaths are noticed")
    assert trial.now.phase == "paused"
    trial.client.resume(trial.id)
    trial.finish()
    assert trial.now.restarts == 0
    same_curve(trial)


# --- Replicas that differ


def test_a_flipped_bit_is_noticed_and_healed_by_taking_the_leaders_state(started: Any, same_curve: Any) -> None:
    """It is flipped right before a step that compares, so that nothing was computed from it.

    Whoever answered a halt before it knew of its digest keeps its state into the next generation, which compares again.
    """
    spec = {"steps": 120}
    trial = started(**spec, faults=({"at": "applied", "step": 99, "do": "flip", "worker": "w1"},))
    trial.finish()
    told = [event.data["digests"] for event in trial.events("replicas_differed")]
    assert told, trial.story()
    for digests in told:
        assert set(digests) == set(told[0]), trial.story()
        assert len(set(digests)) == 2
        assert digests.count(digests[1]) == 1
    assert trial.identical() > 100
    same_curve(trial, **spec)


# --- The coordinator


def test_workers_lose_no_step_while_the_coordinator_is_dead_and_comes_back(started: Any, same_curve: Any) -> None:
    spec = {"steps": 400}
    trial = started(**spec, options=PACED, gates=(390,))
    trial.until(lambda job: len(job.members) == 3 and job.step >= 20, "three workers train")
    before = trial.now
    dead = time.monotonic_ns()
    trial.bed.cluster.coordinator.process.kill()
    again = trial.until_back()
    back = time.monotonic_ns()
    assert (again.generation, again.history, again.phase) == (before.generation, before.history, before.phase)
    meanwhile = {one.step for one in trial.applied() if dead < one.at < back}
    assert len(meanwhile) > 20, "steps go on without a coordinator"
    trial.finish()
    assert trial.now.history == before.history
    trial.points_are_complete()
    same_curve(trial, **spec)


def test_a_kill_while_the_coordinator_is_dead_is_mended_when_it_is_back(started: Any, same_curve: Any) -> None:
    trial = started(options=PACED, gates=(60,))
    trial.until_committed(25)
    trial.bed.cluster.coordinator.process.kill()
    trial.bed.kill_trainers("w1")
    trial.until_back()
    trial.finish()
    assert trial.now.restarts == 0
    same_curve(trial)


# --- Evaluation, epochs, spares


@pytest.mark.parametrize("step", [40, CURVE["steps"]], ids=["on-the-way", "at-the-end"])
def test_a_kill_in_the_middle_of_an_evaluation_leaves_its_metrics_as_they_were(
    started: Any, same_curve: Any, metrics: Any, step: int
) -> None:
    calm, every = metrics(), {"evaluate_every": 20}
    trial = started(**every, faults=({"at": "evaluate", "step": step, "do": "kill"},))
    trial.finish()
    assert trial.done()["step"] == step
    found = trial.metrics()
    assert found.keys() == calm.keys()
    for step, measured in calm.items():
        assert found[step] == pytest.approx(measured, rel=1e-12)
    same_curve(trial)


def test_epochs_with_a_short_last_batch_are_each_complete_and_exact(started: Any, same_curve: Any) -> None:
    """300 samples in batches of 64: the fifth batch of each epoch has 44, which leaves shards of unequal size."""
    spec = {"steps": None, "epochs": 12, "global_batch": 64, "shards": 16}
    trial = started(**spec, faults=tuple({"at": "exchange", "step": step, "do": "kill"} for step in (14, 29)))
    job = trial.finish()
    assert job.steps == 60
    audit = trial.audit()
    assert (audit.epochs, audit.samples) == (12, 3600)
    same_curve(trial, **spec)


def test_a_spare_without_shards_takes_over_and_all_go_on(started: Any, same_curve: Any) -> None:
    spec = {"shards": 2}
    trial = started(**spec, faults=({"at": "backward", "step": 25, "do": "kill"},))
    trial.finish()
    assert trial.identical() > 50
    same_curve(trial, **spec)
