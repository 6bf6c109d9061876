"""Which free worker goes to which job: first in, first out; growth from what the queue cannot use."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from regroup.core.cluster import Cluster, Watch
from regroup.core.jobs import Formation, Job, JobPhase, Member, Seat, Version, Wanted
from regroup.core.messages.agent_reports import AgentLeft
from regroup.core.schedule import Cost, comes_back_to, lend, lent, makes_room
from regroup.core.spec import JobSpec
from regroup.core.workers import Sighting, TrainerPhase, TrainerStatus, Worker


def job(name: str, low: int = 1, high: int = 1, phase: JobPhase = JobPhase.QUEUED, **changes) -> Job:
    spec = JobSpec(task="digits", steps=1, min_workers=low, max_workers=high)
    return Job(id=name, spec=spec, submitted=0.0, phase=phase, **changes)


def cluster(workers: str, *jobs: Job, **lent_to: str) -> Cluster:
    known = {
        name: Worker(name=name, boot="b", device="cpu", host="h", pid=1, version="1", job=lent_to.get(name))
        for name in workers
    }
    sightings = {name: Sighting(seen=0.0, sequence=1) for name in workers}
    return Cluster(started=0.0, jobs={one.id: one for one in jobs}, workers=known, sightings=sightings)


def there(known: Cluster) -> set[str]:
    """Whoever is away will not come back soon."""
    return {name for name in known.workers if known.present(name)}


def lends(known: Cluster) -> Mapping[str, str]:
    return lend(known, there(known))


def test_jobs_start_in_the_order_of_their_submission():
    assert lends(cluster("ab", job("1"), job("2"), job("3"))) == {"a": "1", "b": "2"}


def test_a_job_starts_with_all_that_is_free_up_to_its_maximum():
    assert lends(cluster("abc", job("1", 1, 2), job("2"))) == {"a": "1", "b": "1", "c": "2"}


def test_the_oldest_job_waits_for_its_minimum_and_nobody_overtakes_it():
    """What is free is kept for it: else small jobs could starve it for ever."""
    busy = job("0", phase=JobPhase.RUNNING)
    assert lends(cluster("abc", busy, job("1", 3, 3), job("2"), c="0")) == {}


def test_a_job_that_can_never_start_here_does_not_block_the_others():
    assert lends(cluster("ab", job("1", 3, 3), job("2"))) == {"a": "2"}


def test_a_machine_that_went_away_does_not_block_the_queue():
    known = cluster("abc", job("1", 3, 3), job("2"))
    away = replace(known, sightings={**known.sightings, "c": Sighting(seen=0.0, connected=False)})
    assert lends(away) == {"a": "2"}
    young = replace(known, sightings={name: known.sightings[name] for name in "ab"})
    assert lend(young, set("abc")) == {}  # it has not re-attached yet


def test_quarantined_workers_are_never_lent_and_count_for_nothing():
    both = cluster("ab", job("1", 2, 2), job("2"))
    sick = replace(both, workers={**both.workers, "a": replace(both.workers["a"], quarantined=True)})
    assert lends(sick) == {"b": "2"}


def test_running_jobs_grow_only_from_what_the_queue_cannot_use():
    running = job("1", 1, 3, JobPhase.RUNNING)
    assert lends(cluster("abc", running, job("2", 1, 1), a="1")) == {"b": "2", "c": "1"}
    assert lends(cluster("abc", running, job("2", 3, 3), a="1")) == {}  # kept for job 2, which waits for a
    assert lends(cluster("abc", running, job("2", 9, 9), a="1")) == {"b": "1", "c": "1"}


def test_a_running_job_does_not_grow_beyond_its_maximum():
    assert lends(cluster("abc", job("1", 1, 2, JobPhase.RUNNING), a="1")) == {"b": "1"}
    assert lends(cluster("abc", job("1", 1, 1, JobPhase.RUNNING), a="1")) == {}


def test_a_job_that_began_and_lost_a_worker_is_served_before_the_queue():
    """Else it waits for a worker that is kept for a queued job, which waits for the worker that it has."""
    short = job("1", 2, 2, JobPhase.WAITING)
    assert lends(cluster("ab", short, job("2", 2, 2), a="1")) == {"b": "1"}


def test_a_job_that_began_and_needs_more_workers_than_there_are_takes_none_from_the_queue():
    """Else it would hoard what it cannot use. When the worker that it lacks is back, it comes first again."""
    short = job("1", 3, 3, JobPhase.WAITING)
    assert lends(cluster("ab", short, job("2"), a="1")) == {"b": "2"}
    assert lends(cluster("ab", short, a="1")) == {}
    assert lends(cluster("abc", short, job("2"), a="1")) == {"b": "1", "c": "1"}


def test_older_jobs_grow_first():
    first, second = job("1", 1, 2, JobPhase.RUNNING), job("2", 1, 2, JobPhase.RUNNING)
    assert lends(cluster("abc", first, second, a="1", b="2")) == {"c": "1"}


def test_stopping_and_ended_jobs_get_nobody():
    stopping = job("1", 1, 2, JobPhase.RUNNING, wanted=Wanted.STOP)
    assert lends(cluster("ab", stopping, job("2", phase=JobPhase.COMPLETED), a="1")) == {}


def test_refused_workers_are_not_lent_to_the_job_that_refused_them():
    picky = job("1", 1, 3, JobPhase.RUNNING, refused={"b": "another dataset"})
    assert lends(cluster("abc", picky, a="1")) == {"c": "1"}


def test_only_connected_workers_without_a_trainer_are_free():
    one = cluster("abc", job("1", 1, 3))
    busy = TrainerStatus(job="old", incarnation="i", phase=TrainerPhase.TRAINING)
    sightings = {"a": Sighting(seen=0.0, connected=False), "b": Sighting(seen=0.0, trainer=busy)}
    assert lends(replace(one, sightings=sightings)) == {}


def gone(phase: JobPhase) -> Cluster:
    """Job 1 trains on a and b at most; b's connection is closed, and c is free."""
    seats = tuple(Seat(Member(name, "i"), Version(1, 1)) for name in "ab")
    formation = Formation(2, seats, 0, Version(1, 1), (0, 1), "s")
    one = cluster("abc", job("1", 2, 2, phase, formation=formation, generation=2), a="1", b="1")
    return replace(one, sightings={**one.sightings, "b": Sighting(seen=0.0, connected=False)})


def test_a_member_that_is_cut_off_keeps_its_place_while_the_job_runs():
    assert lent(gone(JobPhase.RUNNING), gone(JobPhase.RUNNING).jobs["1"], set()) == ["a", "b"]
    assert lends(gone(JobPhase.RUNNING)) == {}


def test_but_not_between_two_tries_to_save_once_it_is_gone_for_long():
    """A number was taken since its formation, and no round is under way."""
    known = gone(JobPhase.RUNNING)
    tries = replace(known.jobs["1"], generation=3)
    assert lent(known, tries, {"a", "b"}) == ["a", "b"]
    assert lent(known, tries, {"a"}) == ["a"]


def test_a_waiting_job_gets_another_worker_in_place_of_one_that_is_gone():
    """Else a job whose machine never comes back would wait for ever beside free workers."""
    assert lends(gone(JobPhase.WAITING)) == {"c": "1"}


@pytest.mark.parametrize(
    ("member", "held", "loan"),
    [("b", (2, 5), None), ("b", (2, 2), "1"), ("c", (2, 5), "1"), ("c", (2, 6), None)],
    ids=["a member holds the base", "it has yet to take it", "a step less, and no member", "as much"],
)
def test_who_was_given_up_is_lent_again_with_the_last_copy_while_no_member_holds_the_base(member, held, loan):
    """What a member holds is what counts, also where whoever comes back applied a step more."""
    seats = tuple(Seat(Member(name, "i"), Version(2, 3)) for name in "ab")
    formation = Formation(3, seats, 0, Version(2, 3), (0, 1), "s")
    known = cluster("abc", job("1", 1, 2, JobPhase.RUNNING, formation=formation), b="1", c="1")

    def holds(step: tuple[int, int]) -> Sighting:
        status = TrainerStatus(job="1", incarnation="i", phase=TrainerPhase.HALTED, version=Version(*step))
        return Sighting(seen=0.0, sequence=1, trainer=status)

    known = replace(known, sightings={**known.sightings, "a": holds((2, 6)), member: holds(held)})
    assert comes_back_to(known, "a") == loan


def test_a_queued_job_gets_none_of_the_workers_that_it_refused_and_is_held_up_by_none():
    again = job("1", 1, 2, refused={"a": "its code differs"})
    assert lends(cluster("ab", again)) == {"b": "1"}
    assert lends(cluster("ab", job("1", 2, 2, refused={"a": "its code differs"}), job("2"))) == {"a": "2"}


# --- Jobs that keep each other from going on


def room(known: Cluster, stuck: set[str], **costs: Cost | None) -> tuple[Job, Job] | None:
    return makes_room(known, {id: costs.get(f"j{id}", Cost.NOTHING) for id in stuck}, there(known))


def waiting(name: str, low: int = 2, **changes) -> Job:
    return job(name, low, low, JobPhase.WAITING, **changes)


def test_of_two_jobs_that_keep_what_the_other_lacks_the_younger_makes_room():
    older, younger = waiting("1"), waiting("2")
    assert room(cluster("ab", older, younger, a="1", b="2"), {"1", "2"}) == (younger, older)


def test_nobody_makes_room_for_a_job_that_could_still_not_go_on():
    assert room(cluster("ab", waiting("1", 3), waiting("2", 3), a="1", b="2"), {"1", "2"}) is None


def test_nobody_makes_room_before_both_have_waited_for_long():
    both = cluster("ab", waiting("1"), waiting("2"), a="1", b="2")
    assert room(both, {"1"}) is None
    assert room(both, {"2"}) is None


def test_one_job_at_a_time_makes_room_and_the_youngest_first():
    jobs = waiting("1", 3), waiting("2"), waiting("3")
    three = cluster("abc", *jobs, a="1", b="2", c="3")
    assert room(three, {"1", "2", "3"}) == (jobs[2], jobs[0])
    asked = waiting("1", 3), waiting("2"), waiting("3", wanted=Wanted.YIELD)
    assert room(cluster("abc", *asked, a="1", b="2", c="3"), {"1", "2", "3"}) is None


def test_one_that_ended_while_it_was_to_make_room_keeps_no_others_from_it():
    failed = job("0", phase=JobPhase.FAILED, wanted=Wanted.YIELD)
    older, younger = waiting("1"), waiting("2")
    assert room(cluster("ab", failed, older, younger, a="1", b="2"), {"1", "2"}) == (younger, older)


def test_a_worker_that_the_older_job_refused_is_no_help_to_it():
    older, younger = waiting("1", refused={"b": "its code differs"}), waiting("2", 3)
    assert room(cluster("ab", older, younger, a="1", b="2"), {"1", "2"}) is None


def test_a_job_that_cannot_be_helped_gives_way_to_one_that_can():
    jobs = waiting("1", 3, refused={"c": "its code differs"}), waiting("2"), waiting("3")
    assert room(cluster("abc", *jobs, a="1", b="2", c="3"), {"1", "2", "3"}) == (jobs[0], jobs[1])


def test_a_job_that_the_cluster_has_too_few_workers_for_makes_room_for_a_younger_one():
    hopeless, younger = waiting("1", 4), waiting("2")
    assert room(cluster("ab", hopeless, younger, a="1", b="2"), {"1", "2"}) == (hopeless, younger)


def test_a_job_of_which_nothing_is_lost_makes_room_before_any_other():
    jobs = waiting("1"), waiting("2"), waiting("3")
    three = cluster("abc", *jobs, a="1", b="2", c="3")
    assert room(three, {"1", "2", "3"}, j3=Cost.STEPS) == (jobs[1], jobs[0])
    assert room(three, {"1", "2", "3"}, j2=Cost.STEPS, j3=Cost.STEPS) == (jobs[0], jobs[1]), "also an older one"
    assert room(three, {"1", "2", "3"}, j1=None, j2=Cost.STEPS, j3=Cost.STEPS) == (jobs[2], jobs[0])
    assert room(three, {"1", "2", "3"}, j1=Cost.STEPS, j2=None, j3=None) is None


def test_held_jobs_and_those_that_have_their_workers_make_no_room():
    assert room(cluster("ab", waiting("1"), waiting("2", wanted=Wanted.HOLD), a="1", b="2"), {"1", "2"}) is None
    assert room(cluster("abc", waiting("1"), waiting("2"), a="1", b="2", c="2"), {"1", "2"}) is None


def test_nothing_can_be_had_from_a_job_that_is_held_or_that_cannot_go_on_itself():
    """Else whoever waits for their workers keeps free ones from others for as long."""
    held = job("1", 1, 1, JobPhase.PAUSED, wanted=Wanted.HOLD)
    assert lends(cluster("ab", held, job("2", 2, 2), job("3"), a="1")) == {"b": "3"}
    stuck = job("1", 4, 4, JobPhase.WAITING)
    assert lends(cluster("abc", stuck, job("2", 2, 2), job("3"), a="1", b="1")) == {"c": "3"}


def test_a_connection_that_is_cut_for_a_moment_costs_nobody_the_turn():
    known = cluster("ab", job("0", phase=JobPhase.RUNNING), job("1", 2, 2), job("2"), a="0")
    away = replace(known, sightings={**known.sightings, "a": Sighting(seen=0.0, connected=False)})
    assert lend(away, {"a", "b"}) == {}


def test_a_worker_that_prepares_and_is_away_for_a_moment_keeps_its_place():
    known = cluster("ab", job("1", 1, 1, JobPhase.PREPARING), a="1")
    away = replace(known, sightings={**known.sightings, "a": Sighting(seen=0.0, connected=False)})
    assert lend(away, {"a", "b"}) == {}
    assert lend(away, {"b"}) == {"b": "1"}


# --- Jobs of which each has the worker that can read the other's checkpoint


def blind(known: Cluster, rereads: int = 4, **unable: str) -> Cluster:
    """The workers of each job, by `j` and its id, that could not read its checkpoint."""
    tried = {id[1:]: {Member(name, "i1"): "not those bytes" for name in names} for id, names in unable.items()}
    watches = {id: Watch(since=0.0, progressed=0.0, unable=who, rereads=rereads) for id, who in tried.items()}
    return replace(known, watches=watches)


def test_of_two_jobs_that_cannot_read_their_checkpoints_the_younger_makes_room():
    older, younger = waiting("1", 1), waiting("2", 1)
    both = cluster("ab", older, younger, a="1", b="2")
    assert room(blind(both, j1="a", j2="b"), {"1", "2"}) == (younger, older)
    assert room(blind(both, j1="a", j2=""), {"1", "2"}) is None, "the other one lacks nothing"
    assert room(blind(both, j1="ab", j2="b"), {"1", "2"}) == (older, younger), "only that helps"
    lost = room(blind(both, j1="ab", j2="b"), {"1", "2"}, j1=Cost.STEPS)
    assert lost == (older, younger), "it has lost its steps, and reads nothing with whoever it has"
    assert room(blind(both, j1="ab", j2="ab"), {"1", "2"}) is None, "nobody is left that has not tried"
    assert room(blind(both, j1="a", j2="b"), {"1"}) is None
    assert room(blind(both, rereads=3, j1="a", j2="b"), {"1", "2"}) is None, "storage may only be away"


def test_a_job_whose_workers_cannot_read_its_checkpoint_gets_another_one_before_the_queue_does():
    cannot, queued = waiting("1", 1), job("2")
    assert lends(cluster("ab", cannot, queued, a="1")) == {"b": "2"}
    assert lends(blind(cluster("ab", cannot, queued, a="1"), j1="a")) == {"b": "1"}
    assert lends(blind(cluster("abc", cannot, queued, a="1"), j1="a")) == {"b": "1", "c": "2"}
    assert lends(blind(cluster("ab", cannot, queued, a="1"), j1="ab")) == {"b": "2"}, "it has tried"
    assert lends(blind(cluster("abc", cannot, queued, a="1", b="1"), j1="a")) == {"c": "2"}, "one that may can is there"
    assert lends(blind(cluster("ab", cannot, queued), j1="a")) == {"b": "1", "a": "2"}


def test_one_that_is_there_and_of_no_use_keeps_no_other_from_a_job_that_needs_one_to_read():
    cannot, queued = job("1", 1, 2, JobPhase.WAITING), job("2", 2, 2)
    known = blind(cluster("abc", cannot, queued, a="1", b="1"), j1="a")
    assert lends(known) == {}
    assert lend(known, there(known), idle={"b"}) == {"c": "1"}


def test_two_jobs_do_not_keep_what_the_other_lacks_for_one_that_is_there_and_of_no_use():
    older, younger = waiting("1"), waiting("2")
    known = cluster("abc", older, younger, a="1", b="2", c="2")
    costs = {"1": Cost.NOTHING, "2": Cost.NOTHING}
    assert makes_room(known, costs, there(known)) is None
    assert makes_room(known, costs, there(known), {"c"}) == (younger, older)


def test_who_did_not_save_is_there_for_the_next_job_as_soon_as_the_long_save_is_over(scene):
    """It stood halted all the while, and said nothing new: it had no reason to end."""
    scene.finished("a", "b")
    scene.submit("big", min_workers=2, max_workers=2)
    scene.submit("small", min_workers=1, max_workers=1)
    saver = scene.job.saver.worker
    scene.after(scene.policy.absent_limit + 1.0, heard="ab")
    scene.saved(saver, (1, 10))
    for name in (saver, "b" if saver == "a" else "a"):
        scene.beat(name)
    assert {worker.job for worker in scene.cluster.workers.values()} == {"big"}


def test_one_that_needs_more_workers_than_there_are_makes_room_also_if_it_lost_its_state():
    hopeless, younger = waiting("1", 3), waiting("2")
    known = cluster("ab", hopeless, younger, a="1", b="2")
    for cost in (Cost.NOTHING, Cost.STEPS):
        assert makes_room(known, {"1": cost, "2": Cost.NOTHING}, there(known)) == (hopeless, younger)


def test_nobody_waits_in_the_queue_for_what_a_job_keeps_that_reads_in_vain():
    known = blind(cluster("ab", waiting("1", 1), job("2", 2, 2), job("3"), a="1"), j1="ab")
    assert lends(known) == {"b": "3"}


def test_nor_for_what_a_job_keeps_that_lacks_what_another_one_holds():
    held = job("0", 1, 1, JobPhase.PAUSED, wanted=Wanted.HOLD)
    stuck = waiting("1", 2, refused={"c": "its data differ"})
    assert lends(cluster("abc", held, stuck, job("2", 2, 2), job("3"), a="0", b="1")) == {"c": "3"}


def test_nor_for_what_a_job_keeps_that_waits_to_be_paused():
    """Nobody is given up for that, however silent."""
    pausing = replace(waiting("1", 1), wanted=Wanted.PAUSE)
    assert lends(cluster("ab", pausing, job("2", 2, 2), job("3"), a="1")) == {"b": "3"}


def test_of_free_workers_those_with_the_fewest_errors_are_lent_first():
    known = cluster("abc", job("1"))
    known = replace(known, workers={**known.workers, "a": replace(known.workers["a"], errors=1)})
    assert lends(known) == {"b": "1"}


def test_of_two_jobs_the_younger_makes_room_that_reads_in_vain():
    older, younger = waiting("1", 2), waiting("2", 1)
    known = blind(cluster("ab", older, younger, a="1", b="2"), j2="b")
    assert makes_room(known, {"1": Cost.NOTHING, "2": Cost.NOTHING}, there(known)) == (younger, older)


def test_no_younger_job_overtakes_as_the_agents_are_started_again_one_by_one(scene):
    """The cluster was ended in good order: j was saved, and is first in the queue. Its agents come back, a first."""
    scene.register("a", "b")
    for name in "ab":
        scene.says(name, AgentLeft(boot="b1"))
    scene.submit("j", min_workers=2)
    scene.submit("k", max_workers=1)
    scene.after(5.0)
    scene.restart()
    scene.after(1.0)
    scene.register("a", boot="b2")
    scene.after(0.1)
    assert scene.cluster.jobs["k"].phase is JobPhase.QUEUED
    scene.register("b", boot="b2")
    scene.after(0.1)
    assert {name: worker.job for name, worker in scene.cluster.workers.items()} == {"a": "j", "b": "j"}


def test_whoever_said_goodbye_is_waited_for_no_longer_than_one_that_is_away(scene):
    scene.register("a", "b")
    for name in "ab":
        scene.says(name, AgentLeft(boot="b1"))
    scene.submit("j", min_workers=2)
    scene.submit("k", max_workers=1)
    scene.register("a", boot="b2")
    scene.after(scene.policy.absent_limit + 0.1, heard="a")
    assert scene.cluster.workers["a"].job == "k"


@pytest.mark.parametrize("restarted", [False, True])
def test_no_free_worker_is_kept_by_a_job_for_those_that_said_goodbye(scene, restarted):
    """j needs three, and b and d are gone for good. A new coordinator does not know for how long."""
    scene.running("a", "b", "d", step=3, max_workers=3)
    for name in "bd":
        scene.exits(name, asked=True)
        scene.says(name, AgentLeft(boot="b1"))
    scene.halt("a", (1, 3))
    scene.after(5.0, heard="a")
    if restarted:
        scene.after(1000.0, heard="a")
        scene.restart()
        scene.register("a")
        scene.beat("a", TrainerPhase.HALTED, promised=2, generation=1, version=Version(1, 3))
    scene.register("c")
    scene.after(1.0, heard="ac")
    assert scene.cluster.workers["c"].job is None
    scene.submit("k", max_workers=1)
    scene.after(1.0, heard="ac")
    assert scene.cluster.workers["c"].job == "k"
