"""The search of every schedule: what it counts as one state, how far it goes, and that it finds what is planted."""

import io
import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from rich.console import Console

from regroup.core import commands, decide, settling
from regroup.core.jobs import JobPhase
from regroup.core.turn import Turn
from regroup.lab.sim.search import showing
from regroup.lab.sim.search.bounds import GREAT, SMALL, Bounds
from regroup.lab.sim.search.breadth import search
from regroup.lab.sim.search.identity import identity
from regroup.lab.sim.search.leading import Guide
from regroup.lab.sim.search.moves import Sort, moves
from regroup.lab.sim.search.runs import Telling, searches
from regroup.lab.sim.search.small import Small
from regroup.lab.sim.search.tidying import followed, tidy
from regroup.worker import session

pytestmark = pytest.mark.timeout(1500)  # it computes, and a busy machine takes longer

TINY = Bounds(workers=1, generations=2)
NONE = 2**80  # of the states beyond the bounds that are led


def begin(bounds):
    state = Small(bounds)
    tidy(state)
    return state


def after(state, *names):
    """The state after the moves that begin with these names."""
    for name in names:
        do = next(do for each, _, do in moves(state) if each.startswith(name))
        state = followed(state, do)
    return state


def test_a_tiny_cluster_is_searched_to_the_end():
    found = search(TINY)
    assert found.complete
    assert found.sound
    assert found.stuck == 0
    assert found.ends > 0
    assert 100 < found.states < found.moves < 10_000


def test_searching_twice_finds_the_same():
    first, second = search(TINY), search(TINY)
    assert replace(first, seconds=0.0) == replace(second, seconds=0.0)


@pytest.mark.cluster
@pytest.mark.timeout(3600)  # a guard against hanging: they take five minutes of a fast machine's two cores
def test_every_schedule_of_the_small_clusters_keeps_the_rules_and_can_end():
    sampled = {name: replace(bounds, sampled=32) for name, bounds in SMALL.items()}  # `--exhaustive` leads more
    found = dict(searches(sampled, seconds=3000, memory=4e9, processes=os.cpu_count() or 1))
    assert found.keys() == SMALL.keys()
    assert {name: one.error for name, one in found.items() if not (one.complete and one.sound)} == {}


def test_a_job_can_be_led_to_its_end_move_by_move():
    state, told = begin(TINY), []
    while not state.over:
        names = [name for name, kind, _ in moves(state) if kind is not Sort.FAULT]
        first = [name for kind in ("says", "hears", "goes on", "beats") for name in names if f"a {kind}" in name]
        told.append(first[0])
        state = after(state, first[0])
        assert len(told) < 40
    assert state.jobs["j"].phase is JobPhase.COMPLETED
    assert [name for name in told if "Halt" in name or "Saved" in name] == [
        "a says Halted 1",
        "a says Halted 2",
        "a says StateSaved 2",
    ]


def test_a_copy_goes_its_own_way():
    state = after(begin(Bounds(workers=2, generations=2, deaths=1)), "a hears Prepare", "a says Prepared", "a beats")
    kept = identity(state)
    for _, _, do in moves(state):
        twin = state.copy()
        do(twin)
        tidy(twin)
        assert identity(state) == kept


def test_states_that_were_reached_in_another_order_are_one():
    state = begin(Bounds(workers=2, generations=2))
    assert identity(after(state, "a says", "b says")) == identity(after(state, "b says", "a says"))
    assert identity(after(state, "a says")) != identity(after(state, "b says"))


def test_no_more_goes_wrong_than_the_bounds_allow():
    state = begin(Bounds(workers=1, generations=2, crashes=1))
    faults = [name for name, kind, _ in moves(state) if kind is Sort.FAULT]
    assert faults == ["the coordinator dies"]
    state = after(state, "the coordinator dies", "the coordinator starts")
    assert [name for name, kind, _ in moves(state) if kind is Sort.FAULT] == []


def test_a_search_that_may_not_go_on_says_how_far_it_came():
    """It looks at the clock every few hundred states."""
    found = search(GREAT["two workers: a death, a restart, a crash"], seconds=0.0)
    assert not found.complete
    assert found.error is None
    assert 0 < found.depth < 30
    assert search(Bounds(workers=2, generations=3), memory=0.0).complete is False


def test_a_search_that_may_not_go_on_does_not_pass_for_one_that_checked_progress():
    console = Console(file=io.StringIO(), width=80)
    bounds = {"tiny": TINY, "great": GREAT["three workers"]}
    code, facts = showing.exhaust(console, bounds, seconds=0.0, memory=4e9, processes=1)
    assert code == 0  # nothing that was looked at is wrong
    assert (facts["tiny"]["stuck"], facts["tiny"]["progress"]) == (0, "kept")
    assert (facts["great"]["stuck"], facts["great"]["progress"]) == (None, "not checked")
    *_, row = console.file.getvalue().partition("great: to depth")[2].splitlines()[:3]
    assert row.endswith("not checked")
    assert len(row) <= 80


def test_searches_tell_how_far_they_are_from_other_processes():
    told: list[Telling] = []
    bounds = {"small": Bounds(workers=1, generations=2, crashes=1), "tiny": TINY}
    found = dict(searches(bounds, seconds=60, memory=4e9, processes=2, on_told=told.append))
    assert all(one.complete for one in found.values())
    assert {telling.name for telling in told} == {"small"}
    assert all(telling.depth > 0 and telling.waiting <= telling.states for telling in told)


def test_what_a_search_tells_when_it_is_over_already_is_left_out(monkeypatch):
    """It tells from another process, on another way than its end."""

    def late(named, seconds, memory, processes, on_told):
        yield "tiny", search(TINY)
        on_told(Telling("tiny", 1, 1, 1))

    monkeypatch.setattr(showing, "searches", late)
    console = Console(file=io.StringIO(), force_terminal=True)
    code, facts = showing.exhaust(console, {"tiny": TINY}, seconds=60, memory=4e9, processes=1)
    assert code == 0
    assert facts["tiny"]["complete"]


def searched_with(bug):
    """What the search of a small cluster finds in a process that imports this planted bug."""
    program = (
        "import json\n"
        "from dataclasses import asdict\n"
        "from regroup.lab.sim.planted.bugs import BUGS\n"
        "from regroup.lab.sim.planted.planting import plant\n"
        f"plant(next(bug for bug in BUGS if bug.name == {bug!r}))\n"
        "from regroup.lab.sim.search.bounds import Bounds\n"
        "from regroup.lab.sim.search.breadth import search\n"
        "print(json.dumps(asdict(search(Bounds(workers=1, generations=3, crashes=1)))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("bug", "wrong"),
    [
        ("a number is used again", "a generation forms once"),
        ("a job is completed before its state is durable", "called completed before its state was durable"),
    ],
)
def test_a_planted_bug_is_found_with_the_shortest_way_to_it(bug, wrong):
    found = searched_with(bug)
    assert wrong in found["error"]
    assert 0 < len(found["path"]) < 30
    assert "a says Prepared" in found["path"]


def test_a_planted_bug_by_which_a_job_never_ends_is_found():
    found = searched_with("an order is sent once")
    assert "without another fault do not end it" in found["error"]
    assert found["path"].count("all short limits are over") > 5


@pytest.fixture
def never_formed_again(monkeypatch):
    """The first formation of a job is its last: whenever another is due, it waits, and tries again."""
    issue = settling._issue

    def issue_once(turn, job, verdict):
        if not job.history:
            issue(turn, job, verdict)
        else:
            settling.wait(turn, turn.change_job(job, round=None), "it waits for ever")

    monkeypatch.setattr(settling, "_issue", issue_once)


def test_a_job_that_takes_one_generation_after_another_in_vain_is_found(never_formed_again):
    found = search(Bounds(workers=1, generations=2, deaths=1))
    assert found.error is not None
    assert "without another fault do not end it" in found.error
    assert not found.sound


def test_it_is_found_as_well_where_only_some_states_are_led(never_formed_again):
    assert not search(Bounds(workers=1, generations=2, deaths=1, sampled=5)).sound


def test_only_some_states_beyond_the_bounds_are_led_where_that_is_asked_for():
    found = search(Bounds(workers=1, generations=2, deaths=1, sampled=5))
    assert found.sound
    assert found.cut / 10 < found.led < found.cut / 3


def test_whoever_forgets_that_a_formation_waits_for_its_step_loop_is_found(monkeypatch):
    """Somebody pauses the job and resumes it while its state is being written."""
    enter = session._enter

    def forgetful(one, phase, **changes):
        return enter(one, phase, **{**changes, "waited_for": False})

    monkeypatch.setattr(session, "_enter", forgetful)
    found = search(Bounds(workers=1, generations=3, pauses=1))
    assert "its step loop is in a formation, and is said to be back" in found.error
    assert "the user resumes the job" in found.path


def test_a_job_that_can_go_on_but_does_not_within_the_bounds_is_found(monkeypatch):
    monkeypatch.setattr(commands, "resume", lambda turn, job: None)
    found = search(replace(TINY, holds=1, sampled=NONE))
    assert (found.error, found.led) == (None, 0)
    assert found.stuck > 0


def test_every_state_beyond_the_bounds_is_led_to_its_end():
    found = search(Bounds(workers=1, generations=2, deaths=1))
    assert found.sound
    assert found.led == found.cut > 100


def test_a_paused_job_is_no_end_and_is_resumed_on_the_way_to_it():
    state = after(begin(Bounds(workers=1, generations=2, holds=1)), "a says Prepared", "a beats", "the user holds")
    while state.jobs["j"].phase is not JobPhase.PAUSED:
        state = after(state, next(name for name, kind, _ in moves(state) if kind in (Sort.DUE, Sort.BEAT)))
    assert not state.over
    assert "the user resumes the job" in [name for name, kind, _ in moves(state) if kind is Sort.RESUME]
    guide = Guide()
    guide.lead(state)
    assert guide.led == 1


def test_a_drained_worker_may_be_admitted_at_any_moment():
    state = begin(Bounds(workers=2, generations=2, drains=1))
    drained = after(state, "b is drained")
    assert identity(drained) != identity(state)
    assert drained.workers["b"].drained
    assert [name for name, kind, _ in moves(drained) if kind is Sort.FAULT] == ["b is admitted"]
    admitted = after(drained, "b is admitted")
    assert not admitted.workers["b"].drained
    assert [name for name, kind, _ in moves(admitted) if kind is Sort.FAULT] == []


def test_a_job_whose_only_worker_is_drained_rests_and_is_led_to_its_end_by_an_admission():
    state = begin(Bounds(workers=1, steps=3, generations=2, drains=1))
    state = after(state, "a says Prepared", "a beats", "a says Halted")
    state = after(state, "a goes on: connecting", "a says Formed", "a is drained")
    for _ in range(15):
        due = [name for name, kind, _ in moves(state) if kind is Sort.DUE]
        state = after(state, *(due[:1] or ("a beats", "all short limits are over")))
    assert state.jobs["j"].phase is JobPhase.QUEUED
    assert state.workers["a"].job is None
    assert {kind for _, kind, _ in moves(state)} == {Sort.BEAT, Sort.TIME, Sort.ADMIT}
    guide = Guide()
    guide.lead(state)
    assert guide.led == 1


@pytest.fixture
def waits_for_the_drained(monkeypatch):
    """As long as anybody is drained, nothing goes on."""
    advance = decide.advance

    def wait(turn, job):
        if not any(worker.drained for worker in turn.workers.values()):
            advance(turn, job)

    monkeypatch.setattr(decide, "advance", wait)


def test_a_job_that_waits_for_a_drained_worker_while_another_one_is_left_is_found(waits_for_the_drained):
    """If the drained one is admitted it goes on; but it must not need that."""
    found = search(Bounds(workers=2, generations=1, drains=1))
    assert found.error is None
    assert found.stuck > 0


def test_a_job_may_wait_for_a_drained_worker_where_no_other_one_is_left(waits_for_the_drained):
    assert search(Bounds(workers=1, generations=1, drains=1)).sound


def test_a_drained_worker_that_stays_drained_though_it_is_admitted_is_found(monkeypatch):
    monkeypatch.setattr(decide, "admit", lambda turn, name: None)
    assert search(Bounds(workers=1, generations=3, drains=1, sampled=NONE)).stuck > 0


def test_a_job_that_ends_otherwise_than_completed_though_nobody_stopped_it_is_found(monkeypatch):
    """No other rule forbids that."""
    monkeypatch.setattr(
        Turn,
        "pause",
        lambda turn, job, wanted, reason, **changes: turn.end(job, JobPhase.STOPPED, reason, **changes),
    )
    found = search(Bounds(workers=1, generations=2, drains=1))
    assert "j is stopped, and nobody asked for that" in found.error
    assert "a is drained" in found.path
    assert found.stuck is None


def test_a_job_that_its_user_stops_may_end_stopped():
    state = after(begin(Bounds(workers=1, generations=2, stops=1)), "the user stops")
    assert state.jobs["j"].phase is JobPhase.STOPPED


def test_a_search_without_a_bug_finds_nothing():
    assert search(Bounds(workers=1, generations=3, crashes=1)).sound
