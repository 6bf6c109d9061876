"""The coordinator's decisions as stories: a whole life, heartbeats, who a member is, what is refused."""

import sys
from dataclasses import replace

import pytest

from regroup.core.cluster import JobEnded, NoSuchJob, NoSuchWorker
from regroup.core.decide import decide
from regroup.core.jobs import ORIGIN, Checkpoint, JobPhase, Link, StepPoint, Version
from regroup.core.messages.agent_reports import AgentLeft, AgentRegistered, Heartbeat
from regroup.core.messages.commands import ClearWorker, StopJob, SubmitJob
from regroup.core.messages.events import Disconnected, Tick
from regroup.core.messages.orders import Discard, Form, Halt, Heard, Prepare, Release, TurnAway, Welcome
from regroup.core.messages.protocol import PROTOCOL
from regroup.core.messages.trainer_reports import Formed, Halted, StepsCommitted
from regroup.core.spec import JobSpec
from regroup.core.workers import TrainerPhase

# --- A whole life


def test_a_job_is_prepared_formed_trained_regrouped_saved_and_completed(scene):
    scene.submit(steps=9, min_workers=2)
    assert scene.job.phase is JobPhase.QUEUED
    scene.says("a", AgentRegistered(boot="b1", device="cpu", host="h", pid=1, version="1"))
    assert scene.job.phase is JobPhase.QUEUED
    assert scene.told("a", Welcome) == [Welcome(1.0)]
    scene.beat("a")
    scene.register("b")
    assert scene.job.phase is JobPhase.PREPARING
    assert scene.told("b", Prepare) == [Prepare("j", scene.job.spec)]
    scene.beat("a", TrainerPhase.PREPARING)
    scene.prepare("a")
    assert scene.job.round is None
    scene.prepare("b")
    assert scene.job.generation == scene.job.round.generation == 1
    assert scene.told("b", Halt) == [Halt("j", 1)]
    scene.halt("a", None)
    scene.halt("b", None)
    assert scene.members == ["a", "b"]
    assert scene.job.formation.base == ORIGIN
    assert scene.told("b", Form) == [Form("j", scene.job.formation, 9)]
    scene.train("a")
    assert scene.job.phase is JobPhase.PREPARING
    scene.train("b")
    assert scene.job.phase is JobPhase.RUNNING
    assert scene.notes[-1].kind == "started"
    scene.train("ab", 4)
    scene.exits("b")
    assert (scene.job.phase, scene.job.generation) == (JobPhase.REGROUPING, 2)
    assert scene.told("a", Halt) == [Halt("j", 2)]
    scene.halt("a", (1, 5))
    assert scene.job.phase is JobPhase.WAITING
    assert scene.job.reason == "waits for workers: 1 of 2 are ready; step 5 is kept in memory"
    scene.beat("b")
    scene.prepare("b", incarnation="i2")
    assert scene.job.generation == 3
    scene.halt("a", (1, 5))
    scene.halt("b", None, "i2")
    assert scene.job.formation.base == Version(1, 5)
    assert scene.job.history == (Link(1, 0, 0), Link(3, 1, 5))
    scene.train("a")
    scene.train("b", incarnation="i2")
    assert (scene.job.phase, scene.job.step) == (JobPhase.RUNNING, 5)
    assert scene.notes[-1].kind == "regrouped"
    finished = {"promised": 3, "generation": 3, "version": Version(3, 9)}
    scene.beat("a", TrainerPhase.FINISHED, **finished)
    assert scene.job.round.boundary
    assert scene.told("a", Halt) == [Halt("j", 4, boundary=True)]
    scene.halt("a", (3, 9))
    assert scene.job.saver is None
    scene.halt("b", (3, 9), "i2")
    assert scene.job.saver.worker == "a"
    assert scene.job.phase is JobPhase.RUNNING  # not completed before its state is durable
    scene.saved("a", (3, 9))
    assert scene.job.phase is JobPhase.COMPLETED
    assert scene.job.checkpoint.version == Version(3, 9)
    assert scene.job.step == 9
    assert scene.told("a", Release) == [Release("j")]
    assert [worker.job for worker in scene.cluster.workers.values()] == [None, None]
    assert "j" not in scene.cluster.watches


def test_every_change_of_phase_has_a_reason_in_the_timeline(scene):
    scene.running("a", "b")
    scene.exits("b")
    scene.halt("a", (1, 3))
    assert [note.kind for note in scene.notes if note.job == "j"] == [
        *("submitted", "preparing", "lent", "lent", "waiting", "waiting"),
        *("halt", "form", "started", "exited", "halt", "waiting"),
    ]
    assert all(note.reason for note in scene.notes)


def test_the_next_job_gets_the_workers_of_one_that_ended(scene):
    scene.running("a", step=0)
    scene.submit("k", max_workers=1)
    scene.does(StopJob("j"))
    scene.halt("a", (1, 2))
    scene.saved("a", (1, 2))
    assert scene.cluster.jobs["k"].phase is JobPhase.QUEUED
    scene.beat("a")
    assert scene.told("a", Prepare) == [Prepare("k", scene.cluster.jobs["k"].spec)]


def test_points_are_taken_from_members_of_the_last_formation_alone(scene):
    scene.running("a", "b")
    point = StepPoint(0, 1.5, 8.0, 8, 0.1, 0.01)

    def committed(name, generation, incarnation="i1"):
        report = StepsCommitted(job="j", incarnation=incarnation, generation=generation, step=1, points=(point,))
        return scene.says(name, report).points

    assert committed("a", 1) == (("j", (point,)),)
    assert committed("a", 0) == ()
    assert committed("a", 1, "i0") == ()


# --- A heartbeat


def test_a_heartbeat_changes_nothing_durable(scene):
    scene.running("a", "b")
    before = scene.cluster
    for step in range(1, 4):
        scene.now += 1.0
        scene.train("a", step)
        scene.train("b", step)
    assert scene.cluster.jobs == before.jobs
    assert scene.cluster.workers == before.workers
    assert all(scene.cluster.jobs[id] is job for id, job in before.jobs.items())
    assert all(scene.cluster.workers[name] is worker for name, worker in before.workers.items())


def test_a_heartbeat_is_answered_with_the_last_issued_generation(scene):
    scene.running("a", "b")
    scene.train("a", 1)
    assert scene.told("a", Heard) == [Heard(scene.sequence, 1)]
    scene.exits("b")
    scene.train("a", 1)
    assert scene.told("a", Heard) == [Heard(scene.sequence, 1)]  # 2 is taken, not issued


def test_a_heartbeat_of_an_older_boot_is_not_answered(scene):
    scene.running("a")
    scene.register("a", boot="b2")
    scene.says("a", Heartbeat(boot="b1", sequence=99))
    assert scene.told("a", Heard) == []


@pytest.mark.parametrize(
    ("theirs", "older"), [(PROTOCOL - 1, "agent"), (PROTOCOL + 1, "coordinator")], ids=["older", "newer"]
)
def test_an_agent_of_another_protocol_is_turned_away_and_disturbs_nobody(scene, theirs, older):
    scene.running("a", "b")
    scene.cluster = replace(scene.cluster, release="1.4.0")
    before, words = scene.cluster, {"device": "cpu", "host": "h", "pid": 2, "version": "0.9.0"}
    scene.says("a", AgentRegistered(boot="b2", protocol=theirs, **words))
    reason = (
        f"a speaks protocol {theirs} (Regroup 0.9.0), this coordinator protocol {PROTOCOL} (Regroup 1.4.0): "
        f"update the {older}"
    )
    assert scene.orders == [("a", TurnAway(reason))]
    assert (scene.notes[-1].kind, scene.notes[-1].reason, scene.notes[-1].worker) == ("turned_away", reason, "a")
    scene.says("a", Heartbeat(boot="b2", sequence=99, leaving=True))
    assert scene.cluster == before
    assert scene.orders == []


def test_an_agent_of_another_release_that_speaks_the_same_protocol_is_let_in(scene):
    scene.says("a", AgentRegistered(boot="b1", device="cpu", host="h", pid=1, version="0.0.1", protocol=PROTOCOL))
    assert scene.cluster.workers["a"].version == "0.0.1"
    assert scene.told("a", Welcome)


def test_a_heartbeat_that_was_overtaken_says_nothing_any_more(scene):
    """Else a trainer that it does not know yet would be taken for dead."""
    scene.running("a", "b")
    scene.says("a", Heartbeat(boot="b1", sequence=1))
    assert not scene.dead("a")
    assert scene.job.round is None


def test_a_report_before_any_registration_is_not_an_error(scene):
    scene.says("ghost", Heartbeat(boot="b", sequence=1))
    scene.exits("ghost")
    assert scene.orders == []
    assert scene.cluster.workers == {}


def test_a_late_report_of_a_dead_incarnation_buries_nobody(scene):
    """Reports that waited for a connection come after the heartbeat that tells who runs now."""
    scene.running("a", "b")
    scene.exits("b")
    scene.beat("b")
    scene.prepare("b", incarnation="i2")
    scene.breaks("b", 1, "i1")
    scene.says("b", Halted(job="j", incarnation="i1", generation=2, version=Version(1, 4), store="s"))
    assert not scene.dead("b", "i2")
    assert scene.cluster.sightings["b"].trainer.incarnation == "i2"


def test_a_late_report_does_not_change_what_was_answered(scene):
    scene.running("a", "b")
    scene.exits("b")
    scene.halt("a", (1, 5))
    n = scene.job.generation
    scene.says("a", StepsCommitted(job="j", incarnation="i1", generation=1, step=4))
    scene.says("a", Formed(job="j", incarnation="i1", generation=1))
    scene.breaks("a", 1)
    scene.says("a", Halted(job="j", incarnation="i1", generation=1, version=None, store="s"))
    trainer = scene.cluster.sightings["a"].trainer
    assert (trainer.phase, trainer.promised, trainer.version) == (TrainerPhase.HALTED, n, Version(1, 5))


# --- Who a member is


def test_a_worker_that_registers_anew_is_known_dead(scene):
    scene.running("a", "b")
    scene.register("b", boot="b2")
    assert scene.dead("b")
    assert scene.job.reason == "b: its agent died"


def test_the_same_agent_registering_again_is_only_a_new_connection(scene):
    scene.running("a", "b")
    scene.does(Disconnected("b"))
    scene.register("b")
    assert not scene.dead("b")
    assert scene.cluster.sightings["b"].trainer is not None
    assert scene.job.round is None


def test_another_incarnation_in_a_heartbeat_proves_the_listed_one_dead(scene):
    scene.running("a", "b")
    scene.prepare("b", incarnation="i2")
    assert scene.dead("b", "i1")
    assert not scene.dead("b", "i2")


def test_a_member_known_dead_before_a_restart_is_found_dead_again_though_its_worker_is_not_lent_any_more(scene):
    """Else a job would wait for ever for the answer of a trainer that no agent has."""
    scene.running("a")
    scene.cluster = replace(
        scene.cluster,
        workers={"a": replace(scene.cluster.workers["a"], job=None, quarantined=True, reason="quarantined")},
    )
    scene.restart()
    scene.register("a")
    scene.beat("a")
    assert scene.dead("a")


def test_an_agent_that_leaves_takes_its_trainer_along(scene):
    scene.running("a", "b")
    scene.says("b", AgentLeft(boot="b1"))
    assert scene.dead("b")
    assert scene.cluster.workers["b"].job is None
    assert scene.cluster.workers["b"].errors == 0


def test_the_last_words_of_an_older_agent_do_not_bury_its_successor(scene):
    scene.running("a", "b")
    scene.says("b", AgentLeft(boot="b0"))
    assert not scene.dead("b")


def test_a_generation_above_the_coordinators_is_jumped_above(scene):
    """A store that lost something must not make it give out a number twice."""
    scene.running("a", "b")
    scene.beat("a", TrainerPhase.TRAINING, promised=7, generation=7, version=Version(7, 2))
    assert scene.job.generation == 8
    assert scene.job.round.generation == 8
    assert "above the coordinator's" in scene.job.reason


def test_the_same_words_may_also_make_a_file_count(scene):
    scene.running("a", "b", steps=100, checkpoint_every=2)
    scene.train("ab", 3)
    four = Checkpoint(Version(1, 4), "/c/4", "sum", 1)
    training = {"promised": 1, "generation": 1, "version": Version(1, 4)}
    scene.beat("a", TrainerPhase.TRAINING, **training, written=(four,))
    scene.beat("b", TrainerPhase.HALTED, promised=9, generation=1, version=Version(1, 4))
    assert (scene.job.generation, scene.job.saved.step) == (10, 4)


# --- Commands that cannot be carried out


def test_refusals_change_nothing(scene):
    scene.running("a")
    scene.does(StopJob("j"))
    scene.halt("a", (1, 1))
    scene.saved("a", (1, 1))
    before = scene.cluster
    for command, refusal in (
        (StopJob("j"), JobEnded),
        (StopJob("none"), NoSuchJob),
        (ClearWorker("none"), NoSuchWorker),
    ):
        with pytest.raises(refusal):
            decide(scene.cluster, command, scene.now, scene.policy)
    assert scene.cluster == before


def test_nothing_that_a_worker_says_changes_an_ended_job(scene):
    scene.finished("a", "b")
    n = scene.job.generation
    scene.saved("a", (1, 10))
    ended = scene.job
    scene.saved("a", (1, 10), generation=n)
    scene.breaks("b", 1)
    scene.raises("b")
    scene.exits("b")
    scene.halt("a", (1, 10))
    scene.prepare("b", incarnation="i2", promised=99)
    scene.register("a", boot="b9")
    scene.after(1000.0)
    assert scene.job is ended


@pytest.mark.parametrize("spec", [{}, {"seed": 7}])
def test_a_job_that_is_submitted_again_under_its_id_goes_on_as_it_is(scene, spec):
    scene.running("a")
    job, notes = scene.job, list(scene.notes)
    scene.submit(**spec)
    assert scene.job is job
    assert scene.notes == notes


def test_a_lost_connection_is_told_once_and_a_goodbye_is_told_as_one(scene):
    scene.register("a", "b")
    for _ in range(2):
        scene.does(Disconnected("a"))
    scene.says("b", AgentLeft(boot="b1"))
    scene.does(Disconnected("b"))
    assert [note.worker for note in scene.noted("lost")] == ["a"]
    assert [note.worker for note in scene.noted("left")] == ["b"]


def test_jobs_that_are_submitted_at_the_same_moment_keep_their_order(scene):
    """The store tells them by that moment alone."""
    spec = JobSpec(task="digits", steps=10)
    for job in "zyx":
        scene.does(SubmitJob(job, spec, 5.0))
    moments = [job.submitted for job in scene.cluster.jobs.values()]
    assert [*scene.cluster.jobs] == ["z", "y", "x"]
    assert moments[0] == 5.0
    assert moments == sorted(set(moments))


class LeftAlone:
    """In the place of a job that is over: whatever else is asked of it is too much."""

    ended, doomed = True, ()

    def __getattr__(self, name):
        raise AssertionError(f"a decision about others asks for its {name}")


def test_no_decision_about_others_looks_at_a_job_that_is_over(scene):
    """All that ever were are kept, and a large cluster would stand still one day. (A worker that nobody knows may have
    files of them.)"""
    scene.submit("past")
    scene.does(StopJob("past"))
    scene.running("a", "b", min_workers=1)
    scene.register("c")
    scene.cluster.jobs["past"] = LeftAlone()
    scene.train("a", 3)
    scene.exits("b")
    scene.halt("a", (1, 3))
    scene.after(60.0, heard="ac")
    assert scene.members == ["a"]


def test_a_file_that_is_told_of_once_its_job_is_over_is_deleted_all_the_same(scene):
    scene.running("a", "b", min_workers=1)
    scene.train("a", 3)
    scene.does(StopJob("j", now=True))
    scene.register("c")  # a decision later it is over
    late = Checkpoint(Version(1, 2), "/c/late", "sum", 1)
    scene.beat("a", TrainerPhase.HALTED, promised=2, generation=1, version=Version(1, 3), written=(late,))
    scene.beat("a", left=())
    assert [order.paths for order in scene.told("a", Discard)] == [("/c/late",)]


def test_what_became_of_jobs_since_they_were_decided_is_known_without_a_look_at_all_of_them(scene):
    scene.submit("past")
    scene.does(StopJob("past"))
    scene.running("a")
    stamped = replace(scene.job, reason="stamped")
    after = scene.cluster.having([stamped])
    assert dict(after.live) == {"j": stamped}
    assert after.live == replace(after).live
    assert after.jobs["j"] is stamped


def calls(scene):
    """How many functions one look at the cluster calls."""
    count = 0

    def counted(frame, what, of):
        nonlocal count
        count += what == "call"

    sys.setprofile(counted)
    try:
        scene.does(Tick())
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("needed", [17, 99], ids=["their turn comes", "more than there are"])
def test_a_job_in_the_queue_costs_each_decision_next_to_nothing(scene, needed):
    """Else a sweep of some hundred jobs keeps the coordinator of 64 workers from answering their heartbeats."""
    names = [f"w{number:02}" for number in range(16)]
    scene.running(*names, global_batch=16, shards=16)
    scene.register("free")
    before = calls(scene)
    for number in range(50):
        scene.submit(f"q{number}", min_workers=needed, max_workers=99)
    assert (calls(scene) - before) / 50 < 20, "sixteen workers, looked at for each: 120 and more"


# --- 1b: test_schedule.py
def test_jobs_that_have_all_that_they_asked_for_are_not_looked_at_for_each_worker_that_is_free(scene):
    """As where 64 workers train a job each, and one more is free."""

    def cost(jobs):
        names = [f"w{number}" for number in range(jobs)]
        for name in names:
            scene.submit(f"j{name}", max_workers=1, min_workers=1)
        scene.register(*names)
        for name in names:
            scene.beat(name, TrainerPhase.PREPARED, job=f"j{name}")
        for name in names:
            scene.beat(name, TrainerPhase.HALTED, job=f"j{name}", promised=1)
        for name in names:
            told = {"promised": 1, "generation": 1, "version": Version(1, 0)}
            scene.beat(name, TrainerPhase.TRAINING, job=f"j{name}", **told)
        before = calls(scene)
        scene.register("x")
        return calls(scene) - before

    assert cost(32) / 32 < 100, "each job, times each worker"
