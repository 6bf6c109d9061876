"""The protocol as a whole: the real decision and the real sessions, in worlds that misbehave in every way they can.

Each event is followed by all rules; at the end all faults stop, and every job must end.
"""

from dataclasses import replace
from random import Random

import pytest
from driver import Driver, calm, heal, live_through, quiet, start
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from world import Connected, World, spec

from regroup.core.jobs import JobPhase, Link, Version
from regroup.core.messages.commands import StopJob, SubmitJob
from regroup.core.messages.orders import Form, Halt, Heard
from regroup.core.workers import TrainerPhase
from regroup.lab.sim.model.ghosts import surviving
from regroup.lab.sim.model.trainer import Trainer

KINDS = sorted(Driver(World(1), Random(0)).temper)
SCHEDULES, BLOCKS = 640, 8


@pytest.mark.parametrize("block", range(BLOCKS))
def test_whatever_happens_no_step_is_lost_or_doubled_and_every_job_ends(block):
    for seed in range(block * SCHEDULES // BLOCKS, (block + 1) * SCHEDULES // BLOCKS):
        try:
            live_through(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error


class AnyOrder(RuleBasedStateMachine):
    """The same world, but Hypothesis writes the schedule, and shortens the one that breaks a rule."""

    @initialize(seed=st.integers(0, 2**16))
    def begin(self, seed):
        self.world = start(Random(seed))
        self.driver = Driver(self.world, Random(seed))

    @rule(kind=st.sampled_from(KINDS), seed=st.integers(0, 2**16))
    def happen(self, kind, seed):
        self.driver.random.seed(seed)
        self.driver.happen(kind)

    @rule(name=st.sampled_from("abcd"), move=st.integers(0, 9))
    def step(self, name, move):
        moves = self.driver.moves(self.world.agents[name]) if name in self.world.agents else []
        if moves:
            moves[move % len(moves)]()

    def teardown(self):
        if hasattr(self, "world"):
            heal(self.world)


def test_no_order_of_events_that_hypothesis_finds_breaks_a_rule():
    profile = settings(
        max_examples=150,
        stateful_step_count=60,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(AnyOrder, settings=profile)


# --- Single stories: what the search found, or what it is too rare to find every time


def trained(workers: int, steps: int, until: int = 40, **asked) -> World:
    """A cluster whose workers all train in one generation and committed `steps` steps."""
    world = World(workers)
    world.command(SubmitJob("j", spec(**{"max_workers": workers, "steps": until, **asked}), 0.0))
    for agent in world.agents.values():
        world.start_agent(agent)
        world.connect(agent)
    for _ in range(300):
        if all(committed(world, name) >= steps for name in world.agents):
            return world
        beat(world)
        advance(world, only=[name for name in world.agents if committed(world, name) < steps])
    raise AssertionError("it did not get that far")


def committed(world: World, name: str) -> int:
    trainer = world.agents[name].trainer
    return len(trainer.history or ()) if trainer else -1


def beat(world: World, *names: str, seconds: float = 0.1) -> None:
    """Heartbeats of some workers (else of all), and all that is under way to and from them.

    Step loops make no move, but who promised leaves its group.
    """
    for agent in [world.agents[name] for name in names] or world.agents.values():
        if agent.link:
            world.heartbeat(agent)
    for _ in range(2):
        quiet(world, isolated=set(world.agents) - set(names) if names else set(), stalled=set(world.agents), rounds=3)
        for trainer in world.trainers():
            come_back(world, trainer)
    world.tick(seconds)


def come_back(world: World, trainer: Trainer) -> None:
    if trainer.session.phase is TrainerPhase.HALTED and trainer.session.at_work and world.may_leave(trainer):
        world.leave(trainer)


def advance(world: World, only: list[str]) -> None:
    """One move of each of these step loops."""
    for name in only:
        trainer = world.agents[name].trainer
        moves = world.moves(trainer) if trainer else []
        if moves:
            moves[0]()


def cut(world: World, name: str) -> None:
    agent = world.agents[name]
    agent.link = 0
    agent.reports.clear()
    world.notice_closed(agent)


def at(world: World, name: str) -> str:
    """Where a worker's step loop stands."""
    trainer = world.agents[name].trainer
    return trainer.loop.at if trainer else "gone"


def test_an_undisturbed_job_completes_without_a_restart():
    world = trained(3, 3, until=5)
    heal(world)
    job = world.jobs["j"]
    assert (job.phase, job.step) == (JobPhase.COMPLETED, 5)
    assert not world.ghosts.rolled_back
    assert job.restarts == 0


def test_the_death_of_one_costs_the_others_no_step():
    world = trained(3, 4)
    world.end_trainer(world.agents["b"])
    heal(world)
    job = world.jobs["j"]
    assert job.phase is JobPhase.COMPLETED
    assert all(link.base_step >= 4 for link in job.history[-2:])
    assert not world.ghosts.rolled_back


def test_a_superseded_group_whose_heartbeats_are_answered_again_commits_no_step():
    """Rule 7: the answer names the last issued generation, and renews nobody who is not in it."""
    world = trained(2, 3)
    for name in "ab":
        cut(world, name)
    late = world.agents["c"] = Connected("c")
    world.start_agent(late)
    world.connect(late)
    calm_of_one(world, "c", seconds=26.0)
    job = world.jobs["j"]
    assert [member.worker for member in job.formation.members] == ["c"]
    assert world.ghosts.rolled_back
    assert committed(world, "a") == committed(world, "b") == 3
    for name in "ab":  # they come back, and go on for as long as only heartbeats are answered
        world.connect(world.agents[name])
        world.deliver_report(world.agents[name], 0)
        world.deliver_report(world.agents[name], 0)
        world.agents[name].orders = [order for order in world.agents[name].orders if isinstance(order, Heard)]
        while world.agents[name].orders:
            world.deliver_order(world.agents[name], 0)
    for _ in range(20):
        advance(world, ["a", "b"])
    assert committed(world, "a") == committed(world, "b") == 3
    heal(world)


def calm_of_one(world: World, name: str, seconds: float) -> None:
    end = world.now + seconds
    while world.now < end:
        world.heartbeat(world.agents[name])
        quiet(world, isolated=set(world.agents) - {name}, stalled=set(world.agents) - {name}, rounds=4)
        world.tick(0.5)


def test_nobody_rolls_back_while_a_silent_member_may_still_commit():
    world = trained(2, 3)
    for name in "ab":
        cut(world, name)
    late = world.agents["c"] = Connected("c")
    world.start_agent(late)
    world.connect(late)
    calm_of_one(world, "c", seconds=19.0)
    assert world.jobs["j"].phase is JobPhase.WAITING
    for name in "ab":
        world.connect(world.agents[name])
    heal(world)
    assert world.jobs["j"].phase is JobPhase.COMPLETED
    assert not world.ghosts.rolled_back


def test_a_coordinator_that_hears_nobody_for_a_while_has_nobody_killed():
    """A cut between the coordinator and all workers must not cost the state that they hold."""
    world = trained(3, 3)
    for name in "abc":
        cut(world, name)
    for _ in range(30):  # the step time-out passes, then several Halt limits
        world.tick(0.5)
        advance(world, ["a", "b", "c"])
    for name in "abc":
        world.connect(world.agents[name])
    survivors = {world.agents[name].trainer.member for name in "abc"}
    heal(world)
    job = world.jobs["j"]
    assert job.phase is JobPhase.COMPLETED
    assert set(job.formation.members) <= survivors
    assert not world.ghosts.rolled_back


def test_a_coordinator_restarted_at_any_moment_of_a_regroup_goes_on_where_it_was():
    for moment in range(14):
        world = trained(3, 3)
        world.end_trainer(world.agents["b"])
        for _ in range(moment):
            beat(world)
            advance(world, ["a", "c"])
        world.crash_coordinator()
        for _ in range(6):
            advance(world, ["a", "c"])
        world.start_coordinator()
        heal(world)
        assert world.jobs["j"].phase is JobPhase.COMPLETED
        assert not world.ghosts.rolled_back


def test_a_halt_while_the_leaders_state_is_swapped_in_is_answered_with_that_state():
    """Between the swap and the word of it, a trainer holds what neither its old version nor none would describe."""
    world = trained(2, 3)
    while not (at(world, "a") == at(world, "b") == "contributed"):
        advance(world, [name for name in "ab" if at(world, name) != "contributed"])
    while committed(world, "a") == committed(world, "b"):
        advance(world, ["a"])
    behind = world.agents["b"].trainer
    assert behind is not None
    world.leave(behind)
    for _ in range(200):
        if behind.loop.at == "loaded":
            break
        beat(world)
        advance(world, ["a", "b"])
    assert behind.loop.at == "loaded"
    asked = behind.session.promised + 1
    world.jobs["j"] = replace(world.jobs["j"], generation=asked)  # by a coordinator that this one knows nothing of
    world.take(behind, Halt("j", asked))
    assert behind.session.phase is TrainerPhase.FORMING
    advance(world, ["b"])
    assert behind.session.phase is TrainerPhase.HALTED
    assert behind.session.version == Version(behind.session.generation, committed(world, "a"))
    heal(world)
    assert world.jobs["j"].phase is JobPhase.COMPLETED


def left_behind() -> World:
    """c was left out while a and b went on; it holds an old state, and is back."""
    world = trained(3, 2)
    cut(world, "c")
    breaks = world.agents["b"].trainer
    assert breaks is not None
    world.lose_neighbour(breaks)
    for _ in range(40):
        beat(world, "a", "b")
        advance(world, ["a", "b"])
    assert [member.worker for member in world.jobs["j"].formation.members] == ["a", "b"]
    assert committed(world, "a") > committed(world, "c") + 2
    world.connect(world.agents["c"])
    left = world.agents["c"].trainer
    if at(world, "c") == "contributed":
        world.leave(left)
    return world


def test_a_worker_that_was_left_out_does_not_go_on_without_the_others():
    """Rule 6: it holds a state, and promised; but its promise ends no generation that others train in."""
    world = left_behind()
    for name in "ab":
        cut(world, name)
    for _ in range(60):
        beat(world, "c", seconds=0.2)
        advance(world, ["a", "b", "c"])
    assert world.jobs["j"].phase is JobPhase.WAITING
    assert [member.worker for member in world.jobs["j"].formation.members] == ["a", "b"]
    for name in "ab":
        world.connect(world.agents[name])
    heal(world)
    assert world.jobs["j"].phase is JobPhase.COMPLETED
    assert not world.ghosts.rolled_back


def test_a_member_that_never_got_the_base_does_not_put_the_others_back_to_its_own():
    """Rule 6 with its reason: c is listed with its old state, and before it has the base only c answers."""
    world = left_behind()
    ahead = committed(world, "a")
    for _ in range(100):
        if len(world.jobs["j"].formation.members) == 3:
            break
        beat(world)
        advance(world, ["a", "b"])
    assert len(world.jobs["j"].formation.members) == 3
    for name in "ab":
        cut(world, name)
    for _ in range(40):
        beat(world, "c", seconds=0.2)
    assert world.jobs["j"].formation.base.step >= ahead
    for name in "ab":
        world.connect(world.agents[name])
    heal(world)
    assert world.jobs["j"].phase is JobPhase.COMPLETED
    assert not world.ghosts.rolled_back


def test_a_step_that_an_evicted_worker_committed_alone_is_void():
    """Rule 4: its step is higher, but of an older generation than the others' state."""
    world = trained(3, 2)
    group = world.jobs["j"].formation.generation
    while not all(at(world, name) == "contributed" for name in "abc"):
        advance(world, [name for name in "abc" if at(world, name) != "contributed"])
    step = committed(world, "a")
    cut(world, "c")
    world.leave(world.agents["b"].trainer)
    for _ in range(12):
        beat(world, "a", "b")
        if at(world, "a") == at(world, "b") == "stepping":
            break
        advance(world, ["a", "b"])
    assert world.jobs["j"].formation.base == Version(group, step)
    advance(world, ["c", "c"])
    assert committed(world, "c") == step + 1
    world.connect(world.agents["c"])
    beat(world, "a", "b", "c")
    world.end_trainer(world.agents["b"])
    for _ in range(12):
        beat(world, "a", "b", "c")
    formation = world.jobs["j"].formation
    assert {"a", "c"} <= {member.worker for member in formation.members}
    assert formation.base.generation > group
    heal(world)
    assert world.jobs["j"].phase is JobPhase.COMPLETED


def test_a_form_that_was_under_way_too_long_forms_nobody():
    """Rule 2: c gets the Form of an older number only after it promised a newer one."""
    world = trained(3, 2)
    world.end_trainer(world.agents["b"])
    old = None
    for _ in range(20):
        beat(world, "a", "b")
        world.heartbeat(world.agents["c"])
        while world.agents["c"].reports:
            world.deliver_report(world.agents["c"], 0)
        forms = [order for order in world.agents["c"].orders if isinstance(order, Form)]
        halts = [order for order in world.agents["c"].orders if isinstance(order, Halt)]
        world.agents["c"].orders.clear()
        for order in halts:
            world.obey(world.agents["c"], order)
        come_back(world, world.agents["c"].trainer)
        while world.agents["c"].trainer.outbox:
            world.hear(world.agents["c"])
        old = old or next(iter(forms), None)
        if old is not None and world.jobs["j"].generation > old.formation.generation:
            break
        world.tick(0.5)
    assert old is not None
    trainer = world.agents["c"].trainer
    assert trainer.session.promised > old.formation.generation
    world.obey(world.agents["c"], old)
    assert trainer.session.generation < old.formation.generation
    heal(world)


def test_a_saver_that_hangs_is_replaced_by_another_holder():
    world = trained(2, 5, until=5)
    for _ in range(60):
        if world.jobs["j"].saver is not None:
            break
        beat(world)
        advance(world, ["a", "b"])
    saver = world.jobs["j"].saver
    assert saver is not None
    world.agents[saver.worker].trainer.hung = True
    heal(world)
    assert world.jobs["j"].phase is JobPhase.COMPLETED


def test_stopping_right_after_a_restart_still_saves_what_the_workers_hold():
    world = trained(2, 3, min_workers=2)
    world.end_trainer(world.agents["b"])
    world.kill_agent(world.agents["b"])
    for _ in range(40):
        beat(world)
        advance(world, ["a"])
    assert world.jobs["j"].phase is JobPhase.WAITING
    world.crash_coordinator()
    world.start_coordinator()
    world.command(StopJob("j"))
    world.tick(0.1)
    heal(world)
    job = world.jobs["j"]
    assert job.phase is JobPhase.STOPPED
    assert job.checkpoint is not None
    assert job.checkpoint.version.step >= 3


def test_surviving_history_follows_the_chain_and_leaves_void_steps_out():
    chain = (Link(1, 0, 0), Link(2, 1, 3), Link(3, 2, 3), Link(5, 2, 4))
    assert surviving(chain, Version(5, 6)) == (1, 1, 1, 2, 5, 5)
    assert surviving(chain, Version(3, 5)) == (1, 1, 1, 3, 3)


def test_calm_worlds_stay_calm():
    """The driver's own check: without faults a job needs no second try."""
    world = World(2)
    world.command(SubmitJob("j", spec(steps=3, max_workers=2), 0.0))
    for agent in world.agents.values():
        world.start_agent(agent)
        world.connect(agent)
    calm(world, 3)
    heal(world)
    assert world.jobs["j"].generation <= 3
