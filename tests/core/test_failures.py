"""Errors of workers, which quarantine them, and errors of tasks, which fail the job."""

import pytest

from regroup.core.blame import blame_task
from regroup.core.jobs import IN_STATE, OUTSIDE, Fingerprint, JobPhase, Member, StepFailure, StepPoint
from regroup.core.messages.agent_reports import Heartbeat, ReportTooLarge
from regroup.core.messages.commands import ClearWorker, StopJob
from regroup.core.messages.events import Disconnected
from regroup.core.messages.orders import Prepare, Release
from regroup.core.messages.trainer_reports import (
    TASK,
    WORKER,
    GroupBroke,
    PrepareFailed,
    ReplicasDiffered,
    StepFailed,
    StepsCommitted,
)
from regroup.core.turn import Turn
from regroup.core.workers import Hang, LoopPhase, TrainerPhase
from regroup.wire.codec import encode_value
from regroup.worker.words import TRACE


def test_more_than_five_errors_quarantine_a_worker_and_clearing_forgives_them(scene):
    scene.running("a", min_workers=1)
    for n in range(1, 7):
        assert not scene.cluster.workers["a"].quarantined
        scene.prepare("a", incarnation=f"i{n}")
        scene.exits("a", f"i{n}")
    worker = scene.cluster.workers["a"]
    assert (worker.errors, worker.quarantined, worker.job) == (6, True, None)
    assert worker.reason == "quarantined after 6 errors, the last: killed by SIGKILL"
    scene.beat("a")
    assert scene.told("a", Prepare) == []
    scene.does(ClearWorker("a"))
    assert scene.cluster.workers["a"].errors == 0
    assert scene.told("a", Prepare) == [Prepare("j", scene.job.spec)]


def test_a_late_word_of_an_error_quarantines_a_worker_and_leaves_it_the_trainer_that_came_after(make_scene):
    """That one may hold all that there is; when it errs, too, its worker is done without."""
    scene = make_scene(error_limit=0)
    scene.running("a", "b")
    scene.exits("b", "i0")
    worker = scene.cluster.workers["b"]
    assert (worker.quarantined, worker.job) == (True, "j")
    scene.exits("b", "i1")
    worker = scene.cluster.workers["b"]
    assert (worker.quarantined, worker.job, worker.errors) == (True, None, 2)


def test_a_report_that_its_link_does_not_carry_is_told_to_be_lost(scene):
    scene.running("a")
    for job in ("j", ""):
        scene.says("a", ReportTooLarge(job=job, report="StateSaved", size=20_000_000))
    told = "a had a StateSaved of 20000000 bytes to tell, more than its link carries: it is lost"
    assert [(note.job, note.worker, note.reason) for note in scene.noted("report_lost")] == [
        ("j", "a", told),
        (None, "a", told),
    ]


def test_an_end_that_was_asked_for_is_no_error(scene):
    scene.running("a", "b")
    scene.exits("b", "i1", asked=True)
    assert scene.dead("b")
    assert scene.cluster.workers["b"].errors == 0


def test_who_was_evicted_and_ends_by_itself_before_it_is_killed_has_one_error(scene):
    scene.unanswered()
    scene.exits("b", cause="killed by SIGABRT")
    assert scene.cluster.workers["b"].errors == 1


def test_an_agent_that_died_in_the_middle_of_a_job_counts_as_an_error(scene):
    scene.running("a", "b")
    scene.register("b", boot="b2")
    assert scene.cluster.workers["b"].errors == 1
    scene.register("c")
    scene.register("c", boot="b2")
    assert scene.cluster.workers["c"].errors == 0  # nothing ran under it


def test_a_job_that_cannot_be_prepared_fails_and_names_the_field(scene):
    scene.submit()
    scene.register("a")
    scene.beat("a", TrainerPhase.PREPARING)
    failed = PrepareFailed(job="j", incarnation="i1", field="options.lr", message="must be positive", traceback="T")
    scene.says("a", failed)
    assert scene.job.phase is JobPhase.FAILED
    assert scene.job.reason == "options.lr: must be positive"
    assert scene.job.error == "T"


def raises_preparing(scene, name, why):
    scene.beat(name, TrainerPhase.PREPARING)
    scene.says(name, PrepareFailed(job="j", incarnation="i1", field=TASK, message=why))


def test_what_a_task_raises_as_it_prepares_fails_its_job_once_two_workers_find_so(scene):
    scene.submit(min_workers=1, max_workers=1)
    scene.register("a", "b")
    raises_preparing(scene, "a", "dataset() raised FileNotFoundError: /data")
    assert (scene.job.phase, set(scene.job.refused)) == (JobPhase.PREPARING, {"a"})
    raises_preparing(scene, "b", "dataset() raised FileNotFoundError: /data")
    assert scene.job.phase is JobPhase.FAILED
    assert scene.job.reason == "task: dataset() raised FileNotFoundError: /data"


def test_two_workers_that_cannot_prepare_for_reasons_of_their_own_fail_no_job(scene):
    scene.submit(min_workers=1, max_workers=1)
    scene.register("a", "b", "c")
    raises_preparing(scene, "a", "dataset() raised FileNotFoundError: /data")
    raises_preparing(scene, "b", "model() raised MemoryError: 3 GiB")
    assert (scene.job.phase, set(scene.job.refused)) == (JobPhase.PREPARING, {"a", "b"})
    raises_preparing(scene, "c", "dataset() raised FileNotFoundError: /mnt/data")
    assert scene.job.phase is JobPhase.FAILED


def test_where_nobody_else_is_to_try_it_fails_at_once(scene):
    scene.submit(min_workers=1, max_workers=1)
    scene.register("a")
    raises_preparing(scene, "a", "cannot be imported")
    assert scene.job.phase is JobPhase.FAILED


def test_a_worker_without_the_data_fails_no_job_of_which_others_have_them(scene):
    scene.submit(min_workers=2, max_workers=3)
    scene.register("a", "b", "c")
    scene.prepare("a", "b")
    raises_preparing(scene, "c", "dataset() raised FileNotFoundError: /data")
    assert not scene.job.ended
    assert set(scene.job.refused) == {"c"}


def test_a_worker_that_cannot_prepare_by_its_own_fault_is_refused_and_another_one_takes_its_place(scene):
    scene.submit(max_workers=1)
    scene.register("a", "b")
    scene.beat("a", TrainerPhase.PREPARING)
    scene.says("a", PrepareFailed(job="j", incarnation="i1", field=WORKER, message="its disk is full"))
    assert scene.job.phase is JobPhase.PREPARING
    assert scene.job.refused == {"a": "worker: its disk is full"}
    assert scene.cluster.workers["b"].job == "j"


def test_a_job_that_waits_says_who_may_not_take_part(scene):
    """Else nobody knows that what it waits for may never come."""
    scene.submit(min_workers=2)
    scene.register("a", "b", "c")
    for name, more in (("a", ""), ("b", ", and 1 more")):
        scene.beat(name, TrainerPhase.PREPARING)
        scene.says(name, PrepareFailed(job="j", incarnation="i1", field=WORKER, message="its disk is full"))
        assert scene.job.phase is JobPhase.PREPARING
        assert (
            scene.job.reason
            == f"waits for workers: 0 of 2 are ready; a{more} may not take part: worker: its disk is full"
        )


def test_a_newcomer_that_cannot_prepare_is_refused_and_the_job_goes_on(scene):
    scene.running("a", min_workers=1, max_workers=2)
    scene.register("b")
    scene.beat("b", TrainerPhase.PREPARING)
    failed = PrepareFailed(job="j", incarnation="i1", field="task", message="cannot be imported")
    scene.says("b", failed)
    assert scene.job.phase is JobPhase.RUNNING
    assert scene.job.refused == {"b": "task: cannot be imported"}
    assert scene.cluster.workers["b"].job is None
    assert scene.told("b", Release) == [Release("j")]


def dies_while_preparing(scene, name, incarnation, cause="killed by SIGSEGV"):
    scene.beat(name, TrainerPhase.PREPARING, incarnation)
    scene.exits(name, incarnation, cause=cause)


def test_a_task_whose_process_dies_while_preparing_on_two_workers_fails_the_job(scene):
    scene.submit(min_workers=2)
    scene.register("a", "b")
    dies_while_preparing(scene, "a", "i1")
    assert scene.job.phase is JobPhase.PREPARING
    dies_while_preparing(scene, "b", "i1")
    assert scene.job.phase is JobPhase.FAILED
    assert scene.job.reason.startswith("the task failed while preparing on a, b: ")


def test_newcomers_whose_processes_die_while_preparing_do_not_fail_a_job_that_trains(scene):
    scene.running("a", max_workers=3)
    scene.register("b", "c")
    for name, incarnation in (("b", "i1"), ("b", "i2"), ("c", "i1")):
        dies_while_preparing(scene, name, incarnation)
    assert scene.job.phase is JobPhase.RUNNING
    assert [scene.cluster.workers[name].errors for name in "abc"] == [0, 2, 1]


def test_a_worker_with_another_dataset_is_refused(scene):
    scene.running("a", min_workers=1, max_workers=2)
    scene.register("b")
    scene.prepare("b", fingerprint=Fingerprint("code", "other", 99))
    seeded = "whatever draws it must be seeded, and read the same files"
    assert scene.job.refused == {"b": f"its dataset and samples differ from the other workers': {seeded}"}
    assert scene.cluster.workers["b"].job is None
    assert scene.job.phase is JobPhase.RUNNING
    scene.beat("b")
    assert scene.told("b", Prepare) == []


def test_a_task_that_raises_once_is_tried_again_on_another_worker(scene):
    scene.running("a", "b")
    owner = scene.members[scene.job.formation.owners[2]]
    scene.raises(owner)
    assert scene.job.phase is JobPhase.REGROUPING
    scene.halt("ab", (1, 3))
    assert scene.members[scene.job.formation.owners[2]] != owner


def test_whoever_comes_and_goes_a_shard_that_failed_is_tried_by_another_worker_and_fails_no_job_for_one(scene):
    """Shards turn by rank, and ranks shift with the members."""
    scene.running("b", "c", step=3, min_workers=1, max_workers=3)
    owner = scene.members[scene.job.formation.owners[0]]
    other = "b" if owner == "c" else "c"
    scene.register("a")
    scene.prepare("a")
    scene.raises(owner, generation=1, step=3, shard=0)
    scene.halt("bc", (1, 3))
    scene.halt("a", None)
    assert scene.members == ["a", "b", "c"]
    assert scene.members[scene.job.formation.owners[0]] != owner
    scene.train("abc")
    scene.exits("a")
    held = (scene.job.formation.generation, 3)
    scene.halt("bc", held)
    assert scene.members[scene.job.formation.owners[0]] == other


def test_a_task_that_raises_on_two_workers_fails_the_job_with_the_traceback(scene):
    scene.running("a", "b")
    scene.raises("a")
    scene.halt("ab", (1, 3))
    scene.train("ab")
    scene.raises("b", generation=2)
    assert scene.job.phase is JobPhase.FAILED
    assert scene.job.reason == "the task failed in step 3, shard 2 on a, b: ValueError: bad sample"
    assert scene.job.error == "Traceback ...\nValueError: bad sample"
    assert [worker.job for worker in scene.cluster.workers.values()] == [None, None]


def test_failures_of_different_shards_are_not_the_same_failure(scene):
    scene.running("a", "b")
    scene.raises("a", shard=1)
    scene.halt("ab", (1, 3))
    scene.train("ab")
    scene.raises("b", generation=2, shard=2)
    assert scene.job.phase is JobPhase.REGROUPING


def test_alone_a_task_that_raises_twice_fails_the_job(scene):
    scene.running("a")
    scene.raises("a")
    assert scene.job.phase is JobPhase.REGROUPING
    scene.halt("a", (1, 3))
    scene.train("a")
    scene.raises("a", generation=2)
    assert scene.job.phase is JobPhase.FAILED


def test_a_task_that_crashes_its_process_in_the_same_shard_on_two_workers_fails_the_job(scene):
    scene.running("a", "b", "c", min_workers=1)
    scene.exits("a", cause="killed by SIGSEGV", step=3, shard=2)
    scene.halt("bc", (1, 3))
    scene.train("bc")
    scene.exits("b", cause="killed by SIGSEGV", step=3, shard=2)
    assert scene.job.phase is JobPhase.FAILED
    assert "killed by SIGSEGV" in scene.job.reason


def dies_in_turn(scene, names, **where):
    """Each of them is killed while the others train on; its place is taken by a new trainer."""
    for number, name in enumerate(names, start=1):
        others = [other for other in scene.members if other != name]
        scene.exits(name, scene.incarnations[name], **where)
        if scene.job.ended:
            return
        scene.incarnations[name] = f"i{number + 1}"
        for other in others:
            scene.halt(other, (scene.job.formation.generation, 3), scene.incarnations[other])
        for other in others:
            scene.train(other, incarnation=scene.incarnations[other])
        scene.prepare(name, incarnation=scene.incarnations[name])
        for other in others:
            scene.halt(other, (scene.job.formation.generation, 3), scene.incarnations[other])
        scene.halt(name, None, scene.incarnations[name])
        for member in scene.members:
            scene.train(member, incarnation=scene.incarnations[member])


def test_two_sigkills_in_one_place_are_not_yet_the_tasks_fault_but_a_third_is(scene):
    """SIGKILL comes from outside, and from a kernel whose memory a step uses up."""
    scene.running("a", "b", "c", min_workers=1)
    scene.incarnations = dict.fromkeys("abc", "i1")
    dies_in_turn(scene, "ab", step=3, shard=2)
    assert scene.job.phase is JobPhase.RUNNING
    dies_in_turn(scene, "a", step=3, shard=2)
    assert scene.job.phase is JobPhase.FAILED
    assert scene.job.reason == "the task failed in step 3, shard 2 on a, b: killed by SIGKILL"
    assert [worker.errors for worker in scene.cluster.workers.values()] == [0, 0, 0], "its doing, not theirs"


def test_sigkills_of_one_worker_alone_are_never_the_tasks_fault(scene):
    scene.running("a", "b", min_workers=1)
    scene.incarnations = dict.fromkeys("ab", "i1")
    dies_in_turn(scene, "bbbb", step=3, shard=2)
    assert scene.job.phase is JobPhase.RUNNING


def test_a_task_that_hangs_in_the_same_shard_on_two_workers_fails_the_job(scene):
    scene.running("a", "b", "c", min_workers=1)
    for name, others in (("c", "ab"), ("b", "a")):
        n = scene.job.generation
        scene.says("a", GroupBroke(job="j", incarnation="i1", generation=n, reason="a collective failed"))
        scene.halt(others, (n, 3))
        scene.after(scene.policy.halt_limit + 0.5, heard="abc")
        assert name not in scene.members
        scene.exits(name, "i1", asked=True, step=3, shard=1)
        for other in others if not scene.job.ended else ():
            scene.train(other)
    assert scene.job.phase is JobPhase.FAILED
    assert scene.job.reason == "the task failed in step 3, shard 1 on b, c: it hung, and was evicted"
    assert scene.cluster.workers["b"].errors == scene.cluster.workers["c"].errors == 0


def test_a_worker_whose_replica_is_not_like_most_has_an_error(scene):
    scene.running("a", "b", "c")
    told = {"job": "j", "incarnation": "i1", "step": 3}
    scene.says("a", ReplicasDiffered(**told, generation=1, digests=("aa", "bb", "bb")))
    assert [worker.errors for worker in scene.cluster.workers.values()] == [1, 0, 0], "also if it leads"


def test_an_odd_leaders_state_that_was_just_given_away_is_no_error_of_who_took_it(scene):
    scene.running("a", "b", "c", max_workers=4, step=3)
    scene.register("d")
    scene.prepare("d")
    scene.halt("abc", (1, 3))
    scene.halt("d", None)
    scene.train("abcd")
    told = {"job": "j", "incarnation": "i1", "step": 3, "generation": 2}
    scene.says("b", ReplicasDiffered(**told, digests=("aa", "bb", "bb", "aa")))
    assert {name: worker.errors for name, worker in scene.cluster.workers.items()} == {"a": 1, "b": 0, "c": 0, "d": 0}


def test_where_several_replicas_differ_and_no_most_are_alike_it_is_no_workers_error(scene):
    scene.running("a", "b", "c", max_workers=3)
    told = {"job": "j", "incarnation": "i1", "step": 100, "generation": 1}
    scene.says("a", ReplicasDiffered(**told, digests=("aa", "bb", "cc")))
    assert [worker.errors for worker in scene.cluster.workers.values()] == [0, 0, 0]
    assert len(scene.noted("replicas_differed")) == 1


def test_the_others_regroup_at_once_where_the_odd_one_tells_of_itself_and_is_quarantined(make_scene):
    scene = make_scene(error_limit=0)
    scene.running("a", "b", "c", max_workers=3)
    scene.register("d")
    told = {"job": "j", "incarnation": "i1", "step": 3}
    scene.says("c", ReplicasDiffered(**told, generation=1, digests=("aa", "aa", "bb")))
    assert scene.job.phase is JobPhase.REGROUPING
    assert [note.worker for note in scene.noted("unlent")] == ["c"]
    assert scene.cluster.workers["d"].job == "j", "and keeps its place"


@pytest.mark.parametrize(("generation", "digests"), [(0, ("aa", "bb")), (1, ()), (1, ("aa",)), (1, ("aa", "bb", "cc"))])
def test_digests_of_another_group_are_nobodys_error(scene, generation, digests):
    scene.running("a", "b")
    told = {"job": "j", "incarnation": "i1", "step": 3}
    scene.says("a", ReplicasDiffered(**told, generation=generation, digests=digests))
    assert [worker.errors for worker in scene.cluster.workers.values()] == [0, 0]


def test_a_failure_without_words_is_told_as_such(scene):
    scene.running("a")
    where = {"job": "j", "incarnation": "i1", "step": 3, "shard": 2, "error": "", "traceback": "\n"}
    scene.says("a", StepFailed(**where, generation=1))
    scene.halt("a", (1, 3))
    scene.train("a")
    scene.says("a", StepFailed(**where, generation=2))
    assert scene.job.reason == "the task failed in step 3, shard 2 on a: without a word"


def test_a_quarantine_for_what_was_the_tasks_doing_is_lifted(make_scene):
    scene = make_scene(error_limit=0)
    scene.running("a", "b", "c", min_workers=1)
    scene.exits("a", cause="killed by SIGSEGV", step=3, shard=2)
    assert scene.cluster.workers["a"].quarantined
    scene.halt("bc", (1, 3))
    scene.train("bc")
    scene.exits("b", cause="killed by SIGSEGV", step=3, shard=2)
    assert scene.job.phase is JobPhase.FAILED
    assert not any(worker.quarantined or worker.errors for worker in scene.cluster.workers.values())
    assert {note.worker for note in scene.noted("cleared")} == {"a", "b"}


def test_an_error_is_forgiven_for_each_long_while_without_another(make_scene):
    """Somebody kills a sound worker's trainer once a day, for three weeks."""
    scene = make_scene(error_limit=5, error_forget=6 * 3600.0)
    scene.register("a")
    for day in range(21):
        scene.exits("a", f"i{day}")
        assert scene.cluster.workers["a"].errors == 1
        for _ in range(4):
            scene.after(6 * 3600.0, heard="a")
    assert scene.cluster.workers["a"].errors == 0
    assert len(scene.noted("forgiven")) == 21
    assert scene.noted("forgiven")[0].reason == "an error of a is forgiven, for 21600 s brought no other; 0 still count"


def test_who_dies_more_often_than_it_is_forgiven_is_quarantined_and_time_does_not_lift_that(make_scene):
    scene = make_scene(error_limit=5, error_forget=6 * 3600.0)
    scene.register("a")
    for number in range(6):
        assert not scene.cluster.workers["a"].quarantined
        scene.exits("a", f"i{number}")
        scene.after(5 * 3600.0, heard="a")
    scene.after(30 * 86400.0, heard="a")
    assert (scene.cluster.workers["a"].errors, scene.cluster.workers["a"].quarantined) == (6, True)


def test_time_before_the_coordinator_or_the_agent_began_forgives_nothing(make_scene):
    scene = make_scene(error_forget=100.0)
    scene.register("a")
    scene.exits("a")
    scene.passes(200.0, heard="a")
    scene.restart()
    scene.register("a")
    for boot in ("b1", "b2"):
        scene.register("a", boot=boot)
        scene.after(99.0, heard="a")
        assert scene.cluster.workers["a"].errors == 1
    scene.after(2.0, heard="a")
    assert scene.cluster.workers["a"].errors == 0


def test_a_loss_that_is_no_number_is_said_once(scene):
    scene.running("a")
    for step in (3, 4):
        point = StepPoint(step, float("nan"), 8.0, 8, 0.1, 0.0)
        told = {"job": "j", "incarnation": "i1", "generation": 1, "step": step + 1}
        scene.says("a", StepsCommitted(**told, points=(point,)))
    (note,) = scene.noted("diverged")
    assert note.reason.startswith("the loss of step 3 is nan")
    assert scene.job.phase is JobPhase.RUNNING


def test_replicas_that_differ_regroup_and_are_told(scene):
    scene.running("a", "b")
    report = ReplicasDiffered(job="j", incarnation="i1", generation=1, step=3, digests=("aa", "bb"))
    scene.says("a", report)
    assert scene.job.phase is JobPhase.REGROUPING
    assert scene.noted("replicas_differed")[0].data == {"digests": ["aa", "bb"]}
    assert [worker.errors for worker in scene.cluster.workers.values()] == [0, 1], "of two, whoever does not lead"


def test_a_task_that_is_killed_while_preparing_three_times_and_not_on_one_worker_fails_the_job(scene):
    """As by the kernel, when memory is short: without this it would quarantine one worker after the other."""
    scene.submit(min_workers=2)
    scene.register("a", "b")
    for number, name in enumerate("aab"):
        assert not scene.job.ended
        scene.beat(name, TrainerPhase.PREPARING, f"i{number}")
        scene.exits(name, f"i{number}")
    assert (
        scene.job.reason
        == "the task failed while preparing on a, b: its process ended while preparing: killed by SIGKILL"
    )
    assert {worker.errors for worker in scene.cluster.workers.values()} == {0}


def test_a_task_that_dies_outside_of_its_passes_is_told_as_such(scene):
    scene.running("a", "b")
    for name in "ab":
        scene.exits(name, cause="killed by SIGSEGV", step=3, shard=-1)
    assert scene.job.reason == "the task failed in step 3, outside of a pass on a, b: killed by SIGSEGV"


def test_what_is_told_twice_counts_once(scene):
    scene.running("a", "b", "c")
    for _ in range(3):
        scene.exits("b")
        scene.raises("a")
    assert scene.cluster.workers["b"].errors == 1
    assert len(scene.job.failures) == 1
    assert not scene.job.ended


def test_an_end_that_is_told_again_once_its_job_is_over_counts_once(scene):
    scene.running("a", "b")
    scene.exits("b", cause="killed by SIGSEGV")
    scene.does(StopJob("j", now=True))
    assert scene.job.ended
    scene.exits("b", cause="killed by SIGSEGV")
    assert scene.cluster.workers["b"].errors == 1


def test_replicas_that_differ_are_counted_once_however_often_it_is_told(scene):
    scene.running("a", "b", "c")
    report = ReplicasDiffered(job="j", incarnation="i1", generation=1, step=0, digests=("1", "1", "2"))
    for _ in range(6):
        scene.says("a", report)
    assert scene.cluster.workers["c"].errors == 1


STALE = Fingerprint("old code", "data", 100)


@pytest.mark.parametrize("how", ["its agent starts anew", "it is cleared"])
def test_a_worker_that_was_refused_may_take_part_again_once_it_was_mended(scene, how):
    scene.running("a", max_workers=2, min_workers=1)
    scene.register("b")
    scene.beat("b", TrainerPhase.PREPARED, fingerprint=STALE)
    assert "b" in scene.job.refused
    scene.exits("b", asked=True)
    scene.does(ClearWorker("b")) if how == "it is cleared" else scene.register("b", boot="b2")
    assert scene.job.refused == {}
    scene.beat("b")
    assert scene.cluster.workers["b"].job == "j"


def test_one_worker_with_old_code_that_came_first_does_not_keep_the_others_out_for_ever(scene):
    scene.submit(min_workers=2, max_workers=3)
    scene.register("a", "b", "c")
    scene.beat("a", TrainerPhase.PREPARED, fingerprint=STALE)
    scene.prepare("b", "c")
    assert set(scene.job.refused) == {"b", "c"}
    for name in "abc":
        scene.register(name, boot="b2")
    scene.prepare("a", "b", "c", incarnation="i2")
    assert scene.job.refused == {}
    scene.halt("ab", None, "i2")
    assert scene.members == ["a", "b"]


def test_an_agent_that_starts_no_trainer_loses_its_job_to_another(scene):
    """Its fork server hangs, and it goes on beating."""
    scene.submit()
    scene.register("a")
    scene.after(scene.policy.prepare_limit + 1.0, heard="a")
    assert scene.cluster.workers["a"].errors == 1
    assert scene.noted("unlent")[0].reason == "a leaves the job: its agent started no trainer in 600 s"
    scene.register("b")
    assert scene.cluster.workers["b"].job in ("j", None)


def test_an_agent_whose_trainer_just_died_has_as_long_to_start_another(scene):
    scene.running("a", min_workers=1)
    scene.train("a", 1)
    scene.after(scene.policy.prepare_limit + 1.0, heard="a")
    scene.exits("a")
    scene.after(0.2, heard="a")
    assert scene.cluster.workers["a"].errors == 1, "its death"
    assert scene.cluster.workers["a"].job == "j"


def test_when_all_workers_are_killed_at_once_in_the_same_place_it_is_not_the_tasks_doing(scene):
    scene.running("a", "b", "c")
    for name in "abc":
        scene.exits(name, step=3, shard=-1)
    assert not scene.job.ended
    assert {failure.generation for failure in scene.job.failures} == {1}


def test_one_broken_device_fails_no_job_and_is_not_forgiven(scene):
    """The two others are sound, and still prepare when it has failed twice."""
    scene.submit(min_workers=2, max_workers=3)
    scene.register("a", "b", "c")
    for name in "ac":
        scene.beat(name, TrainerPhase.PREPARING)
    for number in (1, 2):
        dies_while_preparing(scene, "b", f"i{number}")
    assert scene.job.phase is JobPhase.PREPARING
    assert scene.job.refused == {"b": "its process ended while preparing: killed by SIGSEGV, for the second time"}
    assert scene.cluster.workers["b"].errors == 2


def test_one_broken_device_without_which_there_are_too_few_is_tried_until_its_quarantine(scene):
    scene.submit(min_workers=2, max_workers=2)
    scene.register("a", "b")
    scene.prepare("a")
    for number in range(scene.policy.error_limit + 1):
        assert not scene.cluster.workers["b"].quarantined
        dies_while_preparing(scene, "b", f"i{number}")
    assert scene.job.phase is JobPhase.PREPARING
    assert scene.cluster.workers["b"].quarantined


def test_a_task_that_kills_its_process_while_preparing_fails_once_another_worker_shows_it(scene):
    scene.submit(min_workers=2, max_workers=3)
    scene.register("a", "b", "c")
    for name, number in (("b", 1), ("b", 2), ("a", 3)):
        assert not scene.job.ended
        dies_while_preparing(scene, name, f"i{number}")
    assert scene.job.reason == (
        "the task failed while preparing on a, b: its process ended while preparing: killed by SIGSEGV"
    )
    assert not any(worker.errors for worker in scene.cluster.workers.values())


def test_a_task_that_kills_its_only_worker_twice_while_preparing_fails(scene):
    scene.submit(min_workers=1, max_workers=2)
    scene.register("a")
    for number in (1, 2):
        dies_while_preparing(scene, "a", f"i{number}")
    assert scene.job.phase is JobPhase.FAILED


@pytest.mark.parametrize("first", ["late", "death"])
def test_data_that_was_late_and_a_death_outside_of_a_pass_are_not_the_same_failure(scene, first):
    scene.running("a", "b", min_workers=1, step=3)
    scene.passes(scene.policy.halt_limit, heard="ab")
    late = Hang(phase=LoopPhase.DATA, lasts=61.0, limit=60.0, fetch=1)
    for what in (first, "death" if first == "late" else "late"):
        if what == "death":
            scene.exits("b", cause="killed by SIGSEGV", step=3, shard=OUTSIDE)
        else:
            trainer, scene.sequence = scene.cluster.sightings["a"].trainer, scene.sequence + 1
            scene.says("a", Heartbeat(boot="b1", sequence=scene.sequence, trainer=trainer, hang=late))
    assert not scene.job.ended


def test_a_task_that_kills_its_process_while_preparing_fails_where_all_others_are_busy(scene):
    scene.register("b")
    scene.submit("k", max_workers=1)
    scene.register("a")
    scene.submit(max_workers=1)
    for number in (1, 2):
        assert not scene.job.ended
        dies_while_preparing(scene, "a", f"i{number}")
    assert scene.job.phase is JobPhase.FAILED
    assert scene.cluster.workers["a"].errors == 2  # nobody else showed it: it may be this device


def test_a_broken_device_fails_three_jobs_at_most_where_all_others_are_busy(scene):
    scene.running("a", min_workers=1, max_workers=1, steps=10**6)
    scene.train("a", 3)
    scene.register("b")
    for number in range(4):
        scene.submit(id := f"q{number}", min_workers=1, max_workers=1)
        for death in range(2):
            if scene.cluster.workers["b"].job == id:
                scene.beat("b", TrainerPhase.PREPARING, f"{id}.{death}", job=id)
                scene.exits("b", f"{id}.{death}", cause="killed by SIGSEGV", job=id)
                scene.beat("b")
    assert [scene.cluster.jobs[f"q{number}"].phase for number in range(4)] == [*[JobPhase.FAILED] * 3, JobPhase.QUEUED]
    assert scene.cluster.workers["b"].quarantined


def test_who_is_not_heard_is_no_other_worker_on_which_a_task_could_be_tried(scene):
    scene.register("x", "y")
    for _ in range(60):
        scene.after(1.0, heard="y")
    scene.submit(min_workers=1, max_workers=1)
    for number in (1, 2):
        assert scene.cluster.workers["y"].job == "j"
        dies_while_preparing(scene, "y", f"i{number}")
    assert scene.job.phase is JobPhase.FAILED


def test_an_agent_that_dies_each_time_its_trainer_prepares_loses_its_place_to_another(make_scene):
    """As where a container runs out of memory: nobody is left that could say so."""
    scene = make_scene(error_limit=3)
    scene.submit(max_workers=1)
    scene.register("x", "y")
    for boot in ("b2", "b3", "b4", "b5"):
        scene.beat("x", TrainerPhase.PREPARING)
        scene.does(Disconnected("x"))
        scene.register("x", boot=boot)
    assert scene.cluster.workers["x"].quarantined
    assert scene.cluster.workers["y"].job == "j"


def test_a_task_that_takes_two_agents_along_while_it_prepares_fails(scene):
    scene.submit(max_workers=2, min_workers=1)
    scene.register("x", "y")
    for name, boot in (("x", "b2"), ("x", "b3"), ("y", "b2")):
        scene.beat(name, TrainerPhase.PREPARING)
        scene.does(Disconnected(name))
        scene.register(name, boot=boot)
    assert scene.job.phase is JobPhase.FAILED
    assert "while preparing on x, y: its agent died" in scene.job.reason


def test_a_task_that_takes_each_of_many_workers_along_while_it_prepares_fails(scene):
    """More than the failures that a job remembers otherwise: the first one's would be forgotten before its second."""
    names = [f"w{number:02}" for number in range(24)]
    scene.submit(min_workers=24, max_workers=24, global_batch=24, shards=24)
    scene.register(*names)
    for number, name in enumerate([*names, names[0]]):
        assert not scene.job.ended
        dies_while_preparing(scene, name, f"i{number}", cause="killed by SIGKILL")
        scene.beat(name)
    assert scene.job.phase is JobPhase.FAILED


def all_are_cut_off_while_preparing(scene, incarnation):
    for name in "xyz":
        scene.beat(name, TrainerPhase.PREPARING, incarnation)
    for name in "xyz":
        scene.does(Disconnected(name))


def test_a_power_cut_after_a_crash_while_preparing_is_no_error_of_the_task(scene):
    scene.submit(max_workers=3, min_workers=2)
    scene.register("x", "y", "z")
    dies_while_preparing(scene, "x", "i1")
    all_are_cut_off_while_preparing(scene, "i2")
    scene.register("x", "y", "z", boot="b2")
    assert scene.job.phase is JobPhase.PREPARING


def test_a_crash_after_a_power_cut_while_preparing_is_one_crash(scene):
    scene.submit(max_workers=3, min_workers=2)
    scene.register("x", "y", "z")
    all_are_cut_off_while_preparing(scene, "i1")
    scene.register("x", "y", "z", boot="b2")
    dies_while_preparing(scene, "y", "i2")
    assert scene.job.phase is JobPhase.PREPARING
    dies_while_preparing(scene, "z", "i2")
    assert scene.job.phase is JobPhase.FAILED
    assert "while preparing on y, z: " in scene.job.reason


def test_each_trainer_that_could_not_be_born_is_an_error(scene):
    scene.submit(max_workers=1)
    scene.register("x")
    for errors in (1, 2, 3):
        scene.exits("x", incarnation="", cause="no process could be started")
        assert scene.cluster.workers["x"].errors == errors


def test_a_trainer_that_could_not_be_born_is_one_error_though_its_agent_ends_over_it(scene):
    scene.submit(max_workers=1)
    scene.register("x")
    for errors in (1, 2, 3):
        scene.exits("x", incarnation="", cause="no process could be started")
        scene.does(Disconnected("x"))
        if errors == 2:
            scene.restart()
        scene.register("x", boot=f"b{errors + 1}")
        assert scene.cluster.workers["x"].errors == errors
    scene.does(Disconnected("x"))  # this time something else ended it
    scene.register("x", boot="b5")
    assert scene.cluster.workers["x"].errors == 4


def test_a_cluster_that_loses_its_power_while_a_job_prepares_is_not_the_tasks_error(scene):
    scene.submit(max_workers=3, min_workers=3)
    scene.register("x", "y", "z")
    all_are_cut_off_while_preparing(scene, "i1")
    scene.after(5.0)
    scene.register("x", "y", "z", boot="b2")
    assert scene.job.phase is JobPhase.PREPARING


def test_a_record_of_a_job_in_a_large_cluster_stays_small(scene):
    """It is written whole at each change. Data is odd now and then, and another worker gets through the same shard."""
    scene.running("a", "b", steps=10**6)
    scene.register(*(f"w{number:03}" for number in range(254)))
    turn = Turn(scene.cluster, scene.now, scene.policy)
    for step in range(1000):
        error = "x" * TRACE + "\nValueError: odd"
        blame_task(turn, turn.jobs["j"], StepFailure(step, 0, "ab"[step % 2], error, generation=step + 1))
    assert len(turn.jobs["j"].failures) == 3 * 256
    assert len(encode_value(turn.jobs["j"])) < 20 * TRACE + 256 * 1000


def killed_in_the_first_step(scene, names, number):
    """All prepare, form, and are killed in their first pass of step 0."""
    incarnation = f"i{number}"
    for name in names:
        if scene.cluster.workers[name].job == "j":
            scene.prepare(name, incarnation=incarnation)
    for name in names:
        if scene.cluster.workers[name].job == "j":
            scene.halt([name], None, incarnation)
    formation = scene.job.formation
    assert len(formation.seats) == len(names)
    scene.train(names, incarnation=incarnation)
    shards = {formation.members[rank].worker: shard for shard, rank in enumerate(formation.owners)}
    for name in names:
        if not scene.job.ended:
            scene.exits(name, incarnation, step=0, shard=shards[name])
            scene.beat(name)


@pytest.mark.parametrize("workers", [6, 24])
def test_a_step_that_needs_more_memory_than_there_is_fails_its_job_and_takes_no_worker(make_scene, workers):
    """Three times in one step and shard, on several workers, is the task's (decision 0007), with any number of them."""
    scene = make_scene()
    names = [f"w{number:02}" for number in range(workers)]
    scene.register(*names)
    scene.submit(global_batch=workers, shards=workers, min_workers=workers, max_workers=workers)
    for number in range(1, scene.policy.error_limit + 2):
        killed_in_the_first_step(scene, names, number)
        if scene.job.ended:
            break
    assert scene.job.phase is JobPhase.FAILED
    assert not [name for name, worker in scene.cluster.workers.items() if worker.quarantined]


def takes_in(scene, leader, newcomer, version, incarnation):
    """The newcomer is prepared, the leader reaches a boundary, and a generation forms that gives it the state."""
    scene.prepare(newcomer, incarnation=incarnation)
    answers(scene, leader, newcomer, version, incarnation)


def answers(scene, leader, newcomer, version, incarnation):
    scene.halt(leader.worker, version, leader.incarnation)
    scene.halt(newcomer, None, incarnation)
    formation = scene.job.formation
    assert formation.members[formation.leader] == leader
    assert [formation.members[rank].worker for rank in formation.receivers] == [newcomer]


def cannot_tell_its_state(scene, leader):
    """As the step loop tells it: `worker/trainer.py`, where the leader gives its state."""
    n, step = scene.job.generation, scene.job.formation.base.step
    error = {"error": "MemoryError", "traceback": "Traceback ...\nMemoryError"}
    who = {"job": "j", "incarnation": leader.incarnation}
    scene.says(leader.worker, StepFailed(**who, generation=n, step=step, shard=IN_STATE, **error))


def test_a_state_that_was_given_to_others_since_is_not_blamed_for_what_it_did_before(scene):
    """It raised once, and came off in the next try, and in all those of the next months: but no file was written."""
    scene.running("a", "b", step=3, min_workers=1, steps=10**6)
    assert scene.job.spec.checkpoint_every is None
    scene.exits("b")
    scene.beat("b")
    scene.halt("a", (1, 3))
    scene.train("a", 4)
    takes_in(scene, Member("a", "i1"), "b", (2, 4), "i2")
    cannot_tell_its_state(scene, Member("a", "i1"))
    assert not scene.job.ended
    answers(scene, Member("a", "i1"), "b", (2, 4), "i2")
    n = scene.job.generation
    for name, incarnation in (("a", "i1"), ("b", "i2")):
        scene.train(name, incarnation=incarnation)
    for name, incarnation in (("a", "i1"), ("b", "i2")):
        scene.train(name, 5, incarnation)  # its state came off: b holds it, and went on from it
    assert scene.job.phase is JobPhase.RUNNING

    scene.passes(90 * 86400.0, heard="ab")
    for name, incarnation in (("a", "i1"), ("b", "i2")):
        scene.train(name, 900_000, incarnation)
    scene.exits("a")
    scene.beat("a")
    scene.halt("b", (n, 900_000), "i2")
    scene.train("b", 900_001, "i2")
    takes_in(scene, Member("b", "i2"), "a", (scene.job.generation, 900_001), "i2")
    cannot_tell_its_state(scene, Member("b", "i2"))
    assert not scene.job.ended, scene.job.reason


def test_of_the_ends_of_a_workers_trainers_only_the_newest_are_remembered(scene):
    scene.running("a", min_workers=1, max_workers=2, steps=10**6)
    scene.register("b")
    for number in range(200):
        scene.beat("b", TrainerPhase.PREPARING, f"x{number}")
        scene.exits("b", f"x{number}", asked=True)
    remembered = scene.cluster.sightings["b"].ended
    assert remembered[-1] == "x199"
    assert len(remembered) == 64
