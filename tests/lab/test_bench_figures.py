"""The figures of the benchmarks: what is computed from measurements, and what is told of it."""

import json
import random
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from regroup.client.cli import app
from regroup.core.spec import JobSpec
from regroup.lab.audit import Audit
from regroup.lab.bench import telling
from regroup.lab.bench.figures import Interval, Spread, bootstrap, quantile, spread
from regroup.lab.bench.following import Applied, Following, newest, parse, step_times
from regroup.lab.bench.gate import COUNT, Gate
from regroup.lab.bench.machine import this_machine
from regroup.lab.bench.overhead import DDP, MODELS, OURS, SEPARATE, Duel, Model
from regroup.lab.bench.overhead import spec as overhead_spec
from regroup.lab.bench.recovery import Kill, Outcome, Scenario, Whom, begin, steps_lost, timeline
from regroup.lab.bench.recovery import spec as recovery_spec
from regroup.wire.rest import EventView
from regroup.worker.records import Records

MS = 1_000_000


def applied(step: int, at: float, *, worker: str = "w0", generation: int = 1) -> Applied:
    """A commit, `at` in ms."""
    return Applied(worker, f"{worker}-a", generation, step, None, int(at * MS))


def kill(committed: float, *, generations: int = 1) -> Kill:
    return Kill(
        victim="w1",
        committed=committed,
        rejoined=3000.0,
        generations=generations,
        noticed=20.0,
        formed=25.0,
        regrouped=None,
        lost_steps=0,
    )


def outcome(*committed: float, whom: Whom = Whom.AGENT) -> Outcome:
    found = Audit(
        ok=True,
        steps=9,
        generations=2,
        epochs=0,
        samples=54,
        lost=0,
        doubled=0,
        missing_records=0,
        void_steps=0,
        faults=(),
        summary="54 samples in 9 steps",
    )
    kills = [kill(value) for value in committed]
    return Outcome(Scenario(2, whom), kills, [70.0, 72.0, 90.0], audit=found, restarts=0)


def duel(*rounds: tuple[float, float, float], model: Model = MODELS[0]) -> Duel:
    return Duel(model, [{OURS: ours, SEPARATE: separate, DDP: ddp} for ours, separate, ddp in rounds], {OURS: 0.1})


def test_quantiles_interpolate_between_neighbours() -> None:
    values = [40.0, 10.0, 30.0, 20.0]
    assert [quantile(values, q) for q in (0, 0.5, 0.95, 1)] == pytest.approx([10, 25, 38.5, 40])


def test_a_spread_of_one_value_is_that_value_and_of_none_is_nothing() -> None:
    assert spread([7.0]) == Spread(7.0, 7.0, 7.0)
    assert spread([]) is None
    assert bootstrap([]) is None


def test_a_bootstrap_interval_holds_the_median_and_tightens_with_more_values() -> None:
    few, many = bootstrap([0.9, 1.0, 1.1, 1.2]), bootstrap([0.9, 1.0, 1.1, 1.2] * 50)
    assert few is not None
    assert many is not None
    assert few.median == pytest.approx(1.05)
    assert few.low < few.median < few.high
    assert many.high - many.low < few.high - few.low
    assert bootstrap([1.0] * 30) == Interval(1.0, 1.0, 1.0)


def test_a_bootstrap_interval_covers_the_true_median_about_nineteen_times_in_twenty() -> None:
    draw = random.Random(1)
    found = [bootstrap([draw.gauss(1.0, 0.1) for _ in range(30)], seed, 500) for seed in range(100)]
    assert 88 <= sum(each is not None and each.low <= 1.0 <= each.high for each in found) <= 100


def test_following_reads_what_a_record_gains_and_never_half_a_line(tmp_path: Path) -> None:
    records = Records(tmp_path, "j-1", "node-7", "abc")
    following = Following(tmp_path / "j-1")
    following.look()
    assert following.seen == []
    records.read(3, 5, [(0, 1, (4, 2))])
    records.applied(3, 5, 0.5, 2.0)
    following.look()
    assert [(one.worker, one.incarnation, one.generation, one.step) for one in following.seen] == [
        ("node-7", "abc", 3, 5)
    ]
    records.applied(3, 6, 0.5, 2.0)
    whole = records.path.read_text()
    records.path.write_text(whole[:-10])
    following.look()
    assert len(following.seen) == 1
    records.path.write_text(whole)
    following.look()
    assert [one.step for one in following.seen] == [5, 6]
    assert following.seen[1].at > following.seen[0].at
    following.forget()
    following.look()
    assert following.seen == []
    records.close()


def test_a_record_that_is_not_there_yet_holds_nothing(tmp_path: Path) -> None:
    following = Following(tmp_path / "none")
    following.look()
    assert following.seen == []


def test_lines_other_than_applied_are_passed_over() -> None:
    lines = ['{"read":1,"generation":1}', '{"applied":1,"generation":2,"incarnation":"i","loss":1,"monotonic_ns":9}']
    assert list(parse("w3", lines)) == [Applied("w3", "i", 2, 1, 1, 9)]


def test_step_times_leave_out_a_generations_first_step_and_other_workers() -> None:
    seen = [
        applied(1, 0),
        applied(2, 500, generation=2),
        applied(3, 600, generation=2),
        applied(4, 670, generation=2),
        applied(4, 671, generation=2, worker="w1"),
        applied(5, 745, generation=2),
    ]
    assert newest(seen) == 2
    assert newest([]) == 0
    assert step_times(seen, "w0", 2) == [70, 75]


def test_a_timeline_begins_with_the_first_halt_after_the_kill() -> None:
    def event(kind: str, at: float, generation: int) -> EventView:
        return EventView(id=str(at), at=at, kind=kind, reason="", data={"generation": generation})

    events = [
        event("halt", 99.0, 4),  # how the victim had joined
        event("form", 99.1, 4),
        event("halt", 100.02, 5),
        event("form", 100.03, 5),
        event("halt", 100.05, 6),
        event("form", 100.06, 6),
        event("regrouped", 100.08, 6),
        event("halt", 104.0, 7),  # and how it came back
        event("form", 104.1, 7),
    ]
    told = timeline(events, 100.0, 4, 6)
    assert {kind: round(at) for kind, at in told.items()} == {"halt": 20, "form": 60, "regrouped": 80}


def test_recovery_tells_the_first_scenario_at_the_top_and_all_by_name() -> None:
    told = telling.recovery_json([outcome(100, 110, 200), outcome(150, whom=Whom.TRAINER)], this_machine(), False)
    json.dumps(told, allow_nan=False)
    assert told["kills"] == 3
    assert (told["lost_samples"], told["duplicated_samples"], told["lost_steps"], told["restarts"]) == (0, 0, 0, 0)
    assert told["step_ms"] == 72
    assert told["kill_to_commit_ms"] == {"p50": 110, "p95": 191, "max": 200}
    assert told["rejoin_ms"] == {"p50": 3000, "p95": 3000, "max": 3000}
    assert any("REGROUP_ERROR_LIMIT=1000000" in note for note in told["notes"])
    assert list(told["scenarios"]) == ["2_to_1_agent", "2_to_1_trainer"]
    assert told["scenarios"]["2_to_1_trainer"]["kill_to_commit_ms"]["max"] == 150
    assert told["scenarios"]["2_to_1_agent"]["since_kill_ms"]["noticed"] == {"p50": 20, "p95": 20, "max": 20}
    assert told["scenarios"]["2_to_1_agent"]["since_kill_ms"]["regrouped"] is None


def test_steps_that_survivors_had_committed_and_did_again_are_counted() -> None:
    seen = [applied(step, step, worker=worker) for worker in ("w0", "w1") for step in range(8)]
    seen += [applied(8, 8), applied(9, 9, worker="w1"), applied(9, 20, generation=2), applied(10, 30, generation=2)]
    first = begin(seen, 2)
    assert first == applied(9, 20, generation=2)
    assert steps_lost(seen, first, "w1") == 0, "w0 had committed step 8, and what only w1 did died with it"
    assert steps_lost(seen, replace(first, step=8), "w1") == 1
    assert steps_lost(seen, replace(first, step=0), "w1") == 9


def test_a_benchmark_in_which_the_job_lost_its_state_fails_although_its_audit_is_exact() -> None:
    found = outcome(100)
    assert found.faults == []
    found.lost_steps, found.restarts = 42, 1
    assert [fault.partition(" ")[0] for fault in found.faults] == ["42", "all"]
    told = telling.recovery_json([found], this_machine(), False)
    assert (told["lost_steps"], told["restarts"]) == (42, 1)


def test_an_interrupted_benchmark_tells_what_it_has() -> None:
    nothing = telling.recovery_json([Outcome(Scenario(3, Whom.AGENT))], this_machine(), True)
    assert nothing["interrupted"] is True
    assert (nothing["kills"], nothing["step_ms"], nothing["lost_samples"]) == (0, None, None)
    for table in telling.recovery_tables([Outcome(Scenario(3, Whom.AGENT))]):
        assert table.row_count == 1
        assert all(column.header for column in table.columns), "a row has more cells than the table has names"
    half = telling.overhead_json([duel((1.0, 2.0, 1.0)), Duel(MODELS[1])], this_machine(), 20, True)
    assert half["rounds"] == 0
    assert half["models"][MODELS[1].name]["ratio_to_ddp"] is None
    assert telling.overhead_table([Duel(MODELS[1])], 20).row_count == 2


def test_overhead_tells_the_worse_model_at_the_top() -> None:
    good = duel((90, 120, 100), (95, 130, 100), (90, 110, 100))
    bad = duel((50, 80, 40), (44, 80, 40), (48, 80, 40), model=MODELS[1])
    told = telling.overhead_json([good, bad], this_machine(), 20, False)
    json.dumps(told, allow_nan=False)
    assert told["worse_model"] == MODELS[1].name
    assert told["ratio_to_ddp"] == {"median": 1.2, "low": 1.1, "high": 1.25}
    assert told["rounds"] == 3
    assert told["models"][MODELS[0].name]["ratio_to_ddp"]["median"] == 0.9
    assert told["models"][MODELS[0].name]["ratio_not_independent"]["median"] == 1.2
    assert told["models"][MODELS[0].name]["step_ms"] == {"regroup": 90, "regroup_not_independent": 120, "ddp": 100}


def test_totals_show_what_a_median_of_ratios_hides() -> None:
    rare = duel((100, 0, 100), (100, 0, 100), (160, 0, 100))
    ratio = rare.ratio()
    assert ratio is not None
    assert ratio.median == 1.0
    assert rare.ratio_of_totals() == pytest.approx(1.2)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.task)
@pytest.mark.parametrize("independent", [True, False])
def test_every_job_of_the_benchmarks_is_a_sound_one(model: Model, independent: bool, tmp_path: Path) -> None:
    wanted = overhead_spec(model, tmp_path / "gate", independent)
    assert wanted.problems() == ()
    assert wanted.shard_count % 2 == 0, "the two workers must own equally many shards"


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_the_job_of_the_kills_gives_each_worker_a_shard(workers: int) -> None:
    wanted: JobSpec = recovery_spec(workers)
    assert wanted.problems() == ()
    assert wanted.shard_count >= workers


def test_a_gate_lets_each_process_pass_as_often_as_was_said_and_no_more(tmp_path: Path) -> None:
    ours, theirs = Gate(tmp_path / "gate"), Gate(tmp_path / "gate")
    ours.admit(2)
    for gate in (ours, theirs, theirs, ours):
        gate.enter()
    passed = threading.Event()
    waiting = threading.Thread(target=lambda: (theirs.enter(), passed.set()), daemon=True)
    waiting.start()
    assert not passed.wait(0.1)
    ours.admit(1)
    assert passed.wait(10)
    waiting.join()


def test_the_owner_of_a_gate_forgets_what_an_earlier_one_left(tmp_path: Path) -> None:
    Gate(tmp_path / "gate", owner=True).admit(1)
    assert COUNT.unpack((tmp_path / "gate").read_bytes()) == (1,)
    Gate(tmp_path / "gate")
    assert COUNT.unpack((tmp_path / "gate").read_bytes()) == (1,)
    Gate(tmp_path / "gate", owner=True)
    assert COUNT.unpack((tmp_path / "gate").read_bytes()) == (0,)


@pytest.mark.parametrize("command", ["recovery", "overhead"])
def test_what_cannot_be_written_is_one_line_before_anything_is_measured(command: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    result = CliRunner().invoke(app, ["bench", command, "--json", "/nowhere/x"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "regroup: cannot write /nowhere/x: No such file or directory\n"
    result = CliRunner().invoke(app, ["bench", command, "--data-dir", str(tmp_path / "file" / "below")])
    assert (result.exit_code, result.stdout) == (1, "")
    why = f"in {tmp_path / 'file' / 'below'} (Not a directory): give another --data-dir"
    assert result.stderr == f"regroup: cannot make a folder to work in, {why}\n"
