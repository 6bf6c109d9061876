"""Damaged checkpoints: whose word counts, when one is struck, and what the job then begins from."""

from dataclasses import replace

import pytest

from regroup.core.jobs import IN_REPORT, ORIGIN, Checkpoint, JobPhase, Member, Struck, Version
from regroup.core.messages.agent_reports import AgentLeft, AgentRegistered
from regroup.core.messages.commands import DrainWorker, PauseJob, ResumeJob, StopJob
from regroup.core.messages.events import Disconnected
from regroup.core.messages.orders import Discard
from regroup.core.messages.trainer_reports import CheckpointUnreadable
from regroup.core.spec import BeginFrom
from regroup.core.workers import TrainerPhase


def file(step, worker="a", place="/c/j", host="h"):
    return Checkpoint(Version(1, step), f"{place}/s{step}", "sum", 1, worker, host=host)


@pytest.fixture
def resumed(scene):
    """These workers are to go on from the newest of these checkpoints, which somebody wrote before a pause."""

    def begin(*names, steps=(9, 6, 3), writer="a", place="/c/j", host="h", **spec):
        scene.running(*names, **spec)
        scene.train(names, 9)
        scene.does(PauseJob("j"))
        scene.halt(names, (1, 9))
        scene.saved(scene.job.saver.worker, (1, 9))
        newest, *older = [file(step, writer, place, host) for step in steps]
        settled = replace(scene.job, checkpoint=newest, older=tuple(older))
        scene.cluster = replace(scene.cluster, jobs={"j": settled})
        for name in names:
            scene.exits(name, asked=True)
            scene.beat(name)
        scene.does(ResumeJob("j"))
        scene.prepare(*names, incarnation="i2")
        halted(scene, *names)
        return scene

    return begin


def halted(scene, *names):
    scene.halt(names, None, incarnation="i2")


def leader(scene):
    formation = scene.job.formation
    return formation.members[formation.leader].worker


def finds(scene, damaged=True, missing=False, error="other bytes", **more):
    """Whoever leads cannot read the checkpoint that its generation begins from."""
    name, n = leader(scene), scene.job.formation.generation
    scene.beat(name, TrainerPhase.FORMING, "i2", promised=n, generation=n)
    told = {"generation": n, "error": error, "damaged": damaged, "missing": missing} | more
    report = CheckpointUnreadable(job="j", incarnation="i2", **told)
    scene.says(name, report)
    return name, report


def alone_again(scene, **facts):
    """The only worker cannot read it, waits, and tries once more."""
    finds(scene, **facts)
    halted(scene, "a")
    assert scene.job.phase is JobPhase.WAITING
    scene.after(scene.policy.read_retry + 1.0, heard="a")
    halted(scene, "a")
    assert scene.job.formation.checkpoint == scene.job.checkpoint


def struck(scene):
    return [one.checkpoint.version.step for one in scene.job.struck]


def test_what_two_workers_find_damaged_is_struck_and_the_one_before_it_counts(resumed):
    scene = resumed("a", "b")
    finds(scene)
    assert struck(scene) == []
    halted(scene, "a", "b")
    assert finds(scene)[0] == "b"
    assert scene.job.struck == (Struck(file(9), "other bytes"),)
    (note,) = scene.noted("struck")
    assert note.reason == (
        "the checkpoint of step 9 is struck, and the job goes back to step 6: a, b found it damaged: other bytes"
    )
    assert (note.data["path"], note.data["base_step"]) == ("/c/j/s9", 6)
    halted(scene, "a", "b")
    formation = scene.job.formation
    assert (formation.base, formation.checkpoint) == (Version(1, 6), file(6))
    assert (scene.job.step, scene.job.older, scene.job.restarts) == (6, (file(3),), 0)
    assert scene.noted("rolled_back")[-1].reason == "the last generation is lost: from the checkpoint of step 6 on a, b"


def test_the_file_of_a_struck_one_is_kept_and_does_not_count_among_those_that_are(resumed):
    scene = resumed("a", "b", keep_last=3)
    finds(scene)
    halted(scene, "a", "b")
    finds(scene)
    assert (scene.job.checkpoint, scene.job.older, scene.job.doomed) == (file(6), (file(3),), ())
    scene.beat("a", TrainerPhase.BROKEN, "i2", promised=scene.job.formation.generation)
    assert [order for _, order in scene.orders if isinstance(order, Discard)] == []


def test_below_a_struck_one_nothing_counts_that_did_not_before(resumed):
    """Its file may be deleted: while the struck one counted, it was one that nobody told of."""
    scene = resumed("a", "b", keep_last=3)
    finds(scene)
    halted(scene, "a", "b")
    finds(scene)
    assert scene.job.saved == Version(1, 6)
    scene.beat("a", TrainerPhase.HALTED, "i2", promised=scene.job.generation, written=(file(8),))
    assert scene.job.saved == Version(1, 6)


def test_what_is_told_twice_is_one_word(resumed):
    scene = resumed("a")
    name, report = finds(scene)
    for _ in range(3):
        scene.says(name, report)
    assert struck(scene) == []


def test_a_late_word_about_a_struck_one_says_nothing_of_the_next(resumed):
    scene = resumed("a", "b")
    finds(scene)
    halted(scene, "a", "b")
    name, report = finds(scene)
    scene.says(name, report)
    assert scene.cluster.watches["j"].unable == {}
    halted(scene, "a", "b")
    scene.says(name, report)
    assert struck(scene) == [9]
    assert scene.job.formation.checkpoint == file(6)


def test_who_is_alone_is_believed_the_second_time(resumed):
    scene = resumed("a")
    alone_again(scene)
    assert struck(scene) == []
    finds(scene)
    assert struck(scene) == [9]
    assert scene.job.checkpoint == file(6)


def test_a_storage_that_does_not_answer_strikes_nothing_however_often(resumed):
    scene = resumed("a", "b")
    for _ in range(4):
        for _ in "ab":
            finds(scene, damaged=False)
            halted(scene, "a", "b")
        scene.after(2000.0, heard="ab")
        halted(scene, "a", "b")
    assert struck(scene) == []


def test_a_word_is_not_enough_while_another_could_be_asked(resumed):
    """b is there and prepares; a, the only one that could read so far, says it again and again."""
    scene = resumed("a", "b", min_workers=1)
    scene.exits("b", "i2")
    scene.beat("b", TrainerPhase.PREPARING, "i3")
    halted(scene, "a")
    for _ in range(3):
        finds(scene)
        halted(scene, "a")
        scene.after(50.0, heard="ab")
        halted(scene, "a")
    assert struck(scene) == []
    scene.beat("b")  # it will not prepare: its worker leaves
    scene.says("b", AgentLeft(boot="b1"))
    finds(scene)
    assert struck(scene) == [9]


def test_one_that_was_asked_and_cannot_tell_keeps_nobody_waiting(resumed):
    scene = resumed("a", "b")
    finds(scene)
    halted(scene, "a", "b")
    finds(scene, damaged=False)
    halted(scene, "a", "b")
    scene.after(scene.policy.read_retry + 1.0, heard="ab")
    halted(scene, "a", "b")
    finds(scene)
    assert struck(scene) == [9]


@pytest.mark.parametrize(
    ("place", "host", "counts"),
    [("/c/j", "h", True), ("/c/j", "elsewhere", False), ("s3://c/j", "elsewhere", True)],
    ids=["same machine", "another machine", "url"],
)
def test_that_a_file_is_missing_counts_only_where_it_was_written(resumed, place, host, counts):
    """Also where nobody knows its writer any more: its machine was off for so long that it is forgotten."""
    scene = resumed("a", "b", writer="forgotten", place=place, host=host)
    for _ in "ab":
        finds(scene, missing=True)
        halted(scene, "a", "b")
    assert struck(scene) == [9] * counts


def test_where_a_file_lies_is_where_it_was_written_though_its_writers_name_moved_to_another_machine(scene):
    scene.running("a")
    written = Checkpoint(Version(1, 9), "/c/j/s9", "sum", 1)
    scene.beat("a", TrainerPhase.TRAINING, promised=1, generation=1, version=Version(1, 9), written=(written,))
    assert scene.job.checkpoint == file(9)
    scene.cluster = replace(scene.cluster, jobs={"j": replace(scene.job, older=(file(6), file(3)))})
    scene.does(PauseJob("j"))
    scene.halt("a", (1, 9))
    scene.exits("a", asked=True)
    scene.says("a", AgentRegistered(boot="b2", device="cpu", host="elsewhere", pid=1, version="1"))
    scene.beat("a")
    scene.does(ResumeJob("j"))
    scene.prepare("a", incarnation="i2")
    halted(scene, "a")
    alone_again(scene, missing=True)
    finds(scene, missing=True)
    assert struck(scene) == []
    assert scene.job.saved == Version(1, 9)


def test_a_state_that_was_saved_is_known_by_the_machine_that_it_was_written_on(scene):
    scene.finished("a", "b")
    saver = scene.job.saver.worker
    scene.saved(saver, (1, 10))
    assert (scene.job.checkpoint.worker, scene.job.checkpoint.host) == (saver, "h")


def test_the_last_checkpoint_is_not_struck_for_being_missing_but_waited_for(resumed):
    scene = resumed("a", "b", steps=(9,))
    for _ in "ab":
        finds(scene, missing=True)
        halted(scene, "a", "b")
    assert struck(scene) == []
    assert scene.job.phase is JobPhase.WAITING
    assert scene.job.saved == Version(1, 9)


def test_one_after_the_other_is_struck_and_then_the_job_begins_again(resumed):
    scene = resumed("a", "b", steps=(9, 6))
    for _ in range(4):
        finds(scene)
        halted(scene, "a", "b")
    assert struck(scene) == [9, 6]
    told = "the checkpoint of step 6 is struck, and the job begins again from step 0, for none is older: "
    assert scene.noted("struck")[-1].reason.startswith(told)
    formation = scene.job.formation
    assert (formation.base, formation.checkpoint, scene.job.step) == (ORIGIN, None, 0)
    assert scene.job.restarts == 1
    assert scene.noted("rolled_back")[-1].reason == "no state is left: from the seed, at step 0, on a, b"


def test_a_job_that_may_not_start_again_fails_when_its_last_checkpoint_is_struck(resumed):
    scene = resumed("a", "b", steps=(9,), max_restarts=0)
    for _ in "ab":
        finds(scene)
        halted(scene, "a", "b")
    assert scene.job.phase is JobPhase.FAILED
    assert scene.job.reason == "all state was lost more often than max_restarts (0)"
    assert struck(scene) == [9]


def test_to_go_back_is_no_restart(resumed):
    scene = resumed("a", "b", max_restarts=0)
    for _ in "ab":
        finds(scene)
        halted(scene, "a", "b")
    scene.train("ab", 7, incarnation="i2")
    assert (scene.job.phase, scene.job.restarts, scene.job.step) == (JobPhase.RUNNING, 0, 6)


def test_nor_is_it_one_where_the_job_rests_in_that_moment(resumed):
    scene = resumed("a", "b", max_restarts=0)
    finds(scene)
    halted(scene, "a", "b")
    scene.does(PauseJob("j"))
    finds(scene)
    halted(scene, "a", "b")
    assert (scene.job.phase, scene.job.restarts, scene.job.step) == (JobPhase.PAUSED, 0, 6)
    assert struck(scene) == [9]


def test_who_read_it_after_all_refutes_what_was_said(resumed):
    scene = resumed("a", "b")
    finds(scene)
    halted(scene, "a", "b")
    scene.train("ab", 9, incarnation="i2")
    assert scene.cluster.watches["j"].words == {}


def test_a_struck_one_does_not_count_again_because_its_writer_still_tells_of_it(resumed):
    scene = resumed("a", "b")
    for _ in "ab":
        finds(scene)
        n = scene.job.formation.generation
        scene.beat("a", TrainerPhase.BROKEN, "i2", promised=n, generation=n, written=(file(9),))
        halted(scene, "a", "b")
    assert struck(scene) == [9]
    assert scene.job.checkpoint == file(6)


def test_a_state_in_memory_that_comes_back_is_worth_more_than_an_older_checkpoint(resumed):
    scene = resumed("a", "b")
    finds(scene)
    halted(scene, "a", "b")
    finds(scene)
    scene.halt("a", (1, 8), incarnation="i2")  # as one that was cut off, and missed the pause
    scene.halt("b", None, incarnation="i2")
    formation = scene.job.formation
    assert (formation.base, formation.checkpoint, leader(scene)) == (Version(1, 8), None, "a")


def test_to_stop_a_job_whose_last_checkpoint_is_struck_says_what_is_left(resumed):
    scene = resumed("a", "b")
    finds(scene)
    halted(scene, "a", "b")
    scene.does(StopJob("j"))
    finds(scene)
    halted(scene, "a", "b")
    assert (scene.job.phase, scene.job.step) == (JobPhase.STOPPED, 6)
    assert scene.job.checkpoint == file(6)


# --- Who else is asked


def test_another_worker_is_lent_to_read_and_one_that_cannot_makes_room_for_it(resumed):
    scene = resumed("a", "b", max_workers=2)
    scene.register("c")
    for _ in "ab":
        finds(scene, damaged=False)
        halted(scene, "a", "b")
    scene.after(0.1, heard="abc")
    lent = {name for name, worker in scene.cluster.workers.items() if worker.job == "j"}
    assert lent == {"b", "c"}
    scene.exits("a", "i2", asked=True)
    scene.prepare("c", incarnation="i2")
    halted(scene, "b", "c")
    assert scene.job.formation.members[scene.job.formation.leader].worker == "c"


def test_who_holds_an_older_state_keeps_it_and_another_worker_is_lent_all_the_same(resumed):
    """A checkpoint that nobody can read may be struck at last: then the older state is worth something."""
    scene = resumed("a", max_workers=1)
    finds(scene, damaged=False)
    scene.halt("a", (1, 3), incarnation="i2")
    scene.register("c")
    scene.after(0.1, heard="ac")
    assert {name for name, worker in scene.cluster.workers.items() if worker.job == "j"} == {"a", "c"}
    scene.prepare("c", incarnation="i2")
    scene.halt("a", (1, 3), incarnation="i2")
    halted(scene, "c")
    assert scene.members == ["c"]


def test_a_checkpoint_is_read_again_although_somebody_holds_an_older_state(resumed):
    scene = resumed("a", max_workers=1)
    finds(scene, damaged=False)
    scene.halt("a", (1, 3), incarnation="i2")
    assert scene.job.round is None
    scene.after(scene.policy.read_retry + 0.1, heard="a")
    assert scene.job.round is not None


def test_who_is_to_go_and_stays_with_an_older_state_is_nobody_to_be_asked(resumed):
    """It never leads: what the others find of the file is all that there is to find."""
    scene = resumed("a", max_workers=1)
    scene.register("g")
    scene.does(DrainWorker("g"))
    finds(scene)
    halted(scene, "a")
    scene.beat("g", TrainerPhase.HALTED, "i1", promised=1, generation=1, version=Version(1, 3))
    assert scene.cluster.workers["g"].job == "j"
    scene.after(50.0, heard="ag")
    assert scene.cluster.workers["a"].job == "j"
    scene.halt("g", (1, 3))
    halted(scene, "a")
    finds(scene)
    assert struck(scene) == [9]


@pytest.mark.parametrize("lent", [True, False])
def test_one_that_is_connected_and_says_nothing_is_nobody_that_could_be_asked(resumed, lent):
    scene = resumed("a", max_workers=1 + lent)
    scene.register("b")
    assert (scene.cluster.workers["b"].job == "j") is lent
    scene.passes(scene.policy.absent_limit + scene.policy.quiet_limit, heard="a")
    for _ in range(400):  # more than an hour
        scene.after(10.0, heard="a")
        if scene.job.round is not None:
            halted(scene, "a")
        elif scene.job.formation is not None and scene.job.formation.generation == scene.job.generation:
            finds(scene)
    assert 9 in struck(scene)


def test_one_whose_trainer_was_evicted_and_does_not_end_is_nobody_that_could_be_asked(resumed):
    scene = resumed("a", "b", min_workers=1)
    watch = scene.cluster.watches["j"]
    evicted = replace(watch, evicted=frozenset({Member("b", "i2")}))
    scene.cluster = replace(scene.cluster, watches={"j": evicted})
    for _ in range(20):
        scene.after(scene.policy.absent_limit, heard="ab")
        if scene.job.round is not None:
            halted(scene, "a")
        elif scene.job.formation is not None and scene.job.formation.generation == scene.job.generation:
            finds(scene)
    assert 9 in struck(scene)


def test_one_workers_word_does_not_strike_a_file_while_another_one_of_its_job_is_away_for_a_moment(resumed):
    scene = resumed("a", "b", min_workers=1)
    scene.exits("b", "i2")
    scene.beat("b", TrainerPhase.PREPARING, "i3")
    halted(scene, "a")
    finds(scene)
    halted(scene, "a")
    scene.after(scene.policy.read_retry + 1.0, heard="ab")
    halted(scene, "a")
    scene.does(Disconnected("b"))
    finds(scene)
    assert struck(scene) == []
    scene.after(scene.policy.absent_limit + 1.0, heard="a")
    halted(scene, "a")
    finds(scene)
    assert struck(scene) == [9]


def test_whoever_cannot_read_a_checkpoint_makes_room_only_for_one_that_is_heard(resumed):
    """The connection of the other stands, and its agent has said nothing for a while."""
    scene = resumed("a", max_workers=1)
    scene.register("b")
    scene.beat("b")
    scene.passes(scene.policy.quiet_limit + 0.1, heard="a")
    finds(scene, damaged=False)
    halted(scene, "a")
    scene.after(0.1, heard="a")
    assert [note.worker for note in scene.noted("lent")][-1] == "b"
    assert scene.noted("unlent") == []
    scene.after(0.1, heard="ab")
    assert [note.worker for note in scene.noted("unlent")] == ["a"]


# --- A free worker that is away for a moment may tell, too


def test_one_workers_word_strikes_no_file_while_a_free_worker_is_away_for_a_moment(resumed):
    scene = resumed("a", max_workers=1)
    scene.register("c")
    scene.does(Disconnected("c"))
    alone_again(scene)
    finds(scene)
    assert struck(scene) == []


def test_nor_while_the_trainer_of_a_free_worker_is_about_to_end(resumed):
    scene = resumed("a", max_workers=1)
    scene.submit("k", max_workers=1, steps=5)
    scene.register("c")
    scene.beat("c", TrainerPhase.PREPARING, "k1", job="k")
    alone_again(scene)
    scene.does(StopJob("k"))
    assert scene.cluster.workers["c"].job is None
    finds(scene)
    assert struck(scene) == []


def test_but_once_it_is_away_for_long_the_word_counts(resumed):
    scene = resumed("a", max_workers=1)
    scene.register("c")
    scene.does(Disconnected("c"))
    alone_again(scene)
    scene.after(scene.policy.absent_limit, heard="a")
    finds(scene)
    assert struck(scene) == [9]


def test_nor_does_it_fail_a_job_that_begins_from_another_jobs_checkpoint(scene):
    scene.running("a", step=9)
    scene.does(PauseJob("j"))
    scene.halt("a", (1, 9))
    scene.saved("a", (1, 9))
    scene.exits("a", asked=True)
    scene.beat("a")
    scene.register("c")
    scene.does(Disconnected("c"))
    scene.submit("k", begin_from=BeginFrom("j"), steps=20, max_workers=1)
    its = {"incarnation": "k1", "job": "k"}

    def reads():
        n = scene.cluster.jobs["k"].generation
        scene.beat("a", TrainerPhase.HALTED, promised=n, **its)
        scene.beat("a", TrainerPhase.FORMING, promised=n, generation=n, **its)
        scene.says("a", CheckpointUnreadable(**its, generation=n, error="other bytes", damaged=True))
        scene.beat("a", TrainerPhase.HALTED, promised=scene.cluster.jobs["k"].generation, **its)

    scene.beat("a", TrainerPhase.PREPARED, **its)
    reads()
    scene.after(scene.policy.read_retry + 1.0, heard="a")
    reads()
    assert scene.cluster.jobs["k"].phase is not JobPhase.FAILED, scene.cluster.jobs["k"].reason


# --- What may count though one above it was struck


def test_what_was_written_as_ordered_counts_though_one_above_it_was_struck_before_that(resumed):
    """a missed the pause, and is back with step 8. The job is stopped, and the task's report ends a's process."""
    scene = resumed("a", "b")
    finds(scene)
    halted(scene, "a", "b")
    finds(scene)
    assert (struck(scene), scene.job.saved) == ([9], Version(1, 6))
    scene.does(StopJob("j"))
    scene.halt("a", (1, 8), "i2")
    halted(scene, "b")
    assert scene.job.saver == Member("a", "i2"), scene.job.reason
    saves = {"promised": scene.job.generation, "generation": 1, "version": Version(1, 8), "at_work": True}
    scene.beat("a", TrainerPhase.SAVING, "i2", **saves)
    scene.beat("a", TrainerPhase.SAVING, "i2", written=(file(8),), **saves)
    assert scene.job.saved == Version(1, 8)
    scene.exits("a", "i2", step=8, shard=IN_REPORT)
    scene.beat("a")
    halted(scene, "b")
    assert (scene.job.phase, scene.job.step, scene.job.doomed) == (JobPhase.STOPPED, 8, ())


def test_another_file_of_the_same_state_counts_once_one_of_them_was_struck(scene):
    """a and b wrote it, each into its own folder. b's counted, and was struck; a's agent tells of a's on and on."""
    scene.running("a", "b", "c", min_workers=1, step=9)
    theirs, mine = file(9, "b", "/b"), file(9, "a", "/a")
    bad = replace(scene.job, checkpoint=file(6, "b", "/b"), struck=(Struck(theirs, "other bytes"),))
    scene.cluster = replace(scene.cluster, jobs={"j": bad})
    holds = {"promised": 1, "generation": 1, "version": Version(1, 9)}
    scene.beat("b", TrainerPhase.TRAINING, written=(theirs,), **holds)
    assert scene.job.saved == Version(1, 6)
    scene.beat("a", TrainerPhase.TRAINING, written=(mine,), **holds)
    assert scene.job.checkpoint.path == mine.path


def test_a_file_of_another_job_ends_no_job_before_whoever_is_back_with_more_was_asked(scene):
    """All was lost, and it began again; two find the file damaged, and who trained it so far is back meanwhile."""
    scene.running("a", max_workers=1)
    scene.train("a", 9)
    scene.does(PauseJob("j"))
    scene.halt("a", (1, 9))
    scene.saved("a", (1, 9))
    scene.does(StopJob("j"))
    scene.exits("a")
    scene.says("a", AgentLeft(boot="b1"))
    source = scene.job
    scene.cluster = replace(scene.cluster, jobs={"j0": replace(source, id="j0")})
    scene.submit(begin_from=BeginFrom("j0", None), steps=50, min_workers=1, max_workers=2)
    scene.register("b")
    scene.prepare("b")
    scene.halt("b", None)
    scene.train("b", 9)
    scene.train("b", 40)
    n = scene.job.generation
    scene.lost_behind("b", "c", "d")
    assert (scene.members, scene.job.formation.base.step) == (["c"], 9)
    finds_damaged(scene)
    scene.halt("cd", None)
    scene.register("b")
    scene.beat("b", TrainerPhase.TRAINING, promised=n, generation=n, version=Version(n, 40))
    assert scene.cluster.workers["b"].job == "j"
    scene.after(0.2, heard="bcd")
    finds_damaged(scene)
    assert not scene.job.ended
    scene.halt("cd", None)
    scene.halt("b", (n, 40))
    assert scene.job.formation.base == Version(n, 40)


def finds_damaged(scene):
    formation = scene.job.formation
    name, n = formation.members[formation.leader].worker, formation.generation
    scene.beat(name, TrainerPhase.FORMING, promised=n, generation=n)
    report = CheckpointUnreadable(job="j", incarnation="i1", generation=n, error="other bytes", damaged=True)
    scene.says(name, report)
