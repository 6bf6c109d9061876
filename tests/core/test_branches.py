"""Which state is gone on from. Those of a branch that was left may have higher numbers, and fewer steps."""

from dataclasses import replace

import pytest

from regroup.core.branches import best_of, follows
from regroup.core.cluster import Cluster
from regroup.core.jobs import ORIGIN, Checkpoint, Formation, Job, JobPhase, Link, Member, Seat, Version, Wanted
from regroup.core.messages.commands import DrainWorker, PauseJob
from regroup.core.messages.events import Disconnected
from regroup.core.messages.trainer_reports import CheckpointUnreadable
from regroup.core.spec import JobSpec
from regroup.core.workers import TrainerPhase

GOOD = JobSpec(task="digits", steps=10)
# Generation 2 went on alone to step 40; 4 was put back to step 8 of it, and 5 went on from the 40 once they were there.
BRANCHES = (Link(1, 0, 0), Link(2, 1, 5), Link(4, 2, 8), Link(5, 2, 40))


@pytest.mark.parametrize(
    ("state", "base", "expected"),
    [
        (Version(2, 41), Version(2, 40), True),
        (Version(5, 40), Version(2, 40), True),
        (Version(5, 47), Version(5, 40), True),
        (Version(2, 40), Version(5, 40), False),  # its holder never was in 5
        (Version(4, 8), Version(2, 40), False),
        (Version(4, 50), Version(2, 40), False),  # another branch, with more steps
        (Version(4, 50), Version(2, 8), True),
        (Version(1, 6), Version(2, 5), False),  # a void step
        (ORIGIN, ORIGIN, True),
    ],
)
def test_a_state_goes_on_from_a_base_if_history_leads_from_one_to_the_other(state, base, expected):
    assert follows(Job(id="j", spec=GOOD, submitted=0.0, history=BRANCHES), state, base) is expected


def test_what_a_generation_made_that_the_store_forgot_goes_on_from_all_that_is_known():
    job = Job(id="j", spec=GOOD, submitted=0.0, history=BRANCHES)
    assert follows(job, Version(7, 60), Version(5, 40))
    assert follows(job, Version(3, 60), Version(2, 40))
    later = replace(job, history=(*BRANCHES, Link(6, 3, 60)))  # and what goes on from that
    assert follows(later, Version(6, 70), ORIGIN)
    assert follows(later, Version(6, 70), Version(2, 40))


A, B, C = (Member(name, "i1") for name in "abc")
LAST = Formation(5, (Seat(A, None),), 0, Version(2, 40), (0,), "s")


def test_the_best_state_is_the_highest_version_of_the_last_formations_line_if_one_of_its_members_holds_any():
    job = Job(id="j", spec=GOOD, submitted=0.0, history=BRANCHES, formation=LAST)
    assert best_of(job, {A: Version(2, 40), B: Version(4, 50), C: Version(1, 60)}) == Version(2, 40)
    assert best_of(job, {A: Version(4, 8), B: Version(2, 41), C: Version(4, 50)}) == Version(2, 41)
    ahead = replace(job, checkpoint=Checkpoint(Version(5, 41), "/c/41", "sum", 1))
    assert best_of(ahead, {A: Version(5, 40), B: Version(4, 50)}) == Version(5, 41)


def test_else_the_best_state_has_the_most_steps_and_is_not_older_than_what_is_durable():
    job = Job(id="j", spec=GOOD, submitted=0.0, history=BRANCHES, formation=LAST)
    assert best_of(job, {B: Version(2, 40), C: Version(4, 8)}) == Version(2, 40)
    assert best_of(job, {B: Version(2, 40), C: Version(4, 50)}) == Version(4, 50)
    assert best_of(job, {A: Version(1, 6), C: Version(4, 6)}) == Version(4, 6)  # a has none of its line
    durable = replace(job, checkpoint=Checkpoint(Version(2, 40), "/c/40", "sum", 1))
    assert best_of(durable, {B: Version(1, 60), C: Version(4, 8)}) == Version(2, 40)
    assert best_of(durable, {B: Version(1, 60), C: Version(4, 50)}) == Version(4, 50)


def test_a_long_history_is_not_walked_through_for_each_state():
    looked = 0

    class Links(tuple):
        def __getitem__(self, index):
            nonlocal looked
            looked += 1
            return super().__getitem__(index)

    links = Links(Link(each, each - 1, each) for each in range(1, 100_001))
    job = Job(id="j", spec=GOOD, submitted=0.0, history=links)
    assert follows(job, Version(100_000, 100_007), Version(99_999, 100_000))
    assert looked < 50


# Generation 1 went on alone to step 40; 2 was put back to step 3 of it and made none; 3 began from the file of step 36.
LINKS = (Link(1, 0, 0), Link(2, 1, 3), Link(3, 1, 36))


def take_up(scene, formation, **changes):
    """The job's last generation is this one, and its history leads to it."""
    job = replace(scene.job, formation=formation, history=(*LINKS[:2], Link(3, 1, formation.base.step)), **changes)
    scene.cluster = replace(scene.cluster, jobs={"j": job})


@pytest.mark.parametrize("other", [False, True])
def test_who_leaves_with_most_steps_is_needed_though_another_branch_has_a_higher_number(scene, other):
    scene.running("a", "b", "d", min_workers=1, max_workers=3, steps=100)
    file = Checkpoint(Version(1, 36), "s3://c/j/36", "sum", 1)
    last = Formation(3, (Seat(Member("d", "i1"), None),), 0, file.version, (0,) * 4, "s")
    take_up(scene, last, generation=4, checkpoint=file, phase=JobPhase.WAITING, step=36)
    scene.does(Disconnected("d"))  # it may train on, and is waited for
    if other:
        scene.beat("a", TrainerPhase.HALTED, promised=4, generation=2, version=Version(2, 3))
    else:
        scene.exits("a")
    scene.beat("b", TrainerPhase.HALTED, promised=4, generation=1, version=Version(1, 40))
    scene.after(20, heard="ab")
    scene.does(DrainWorker("b"))
    scene.after(0.2, heard="ab")
    assert scene.cluster.workers["b"].job == "j"


@pytest.mark.parametrize("other", [False, True])
def test_what_is_held_by_those_alone_that_go_is_saved_though_another_branch_has_a_higher_number(scene, other):
    scene.running("a", "b", min_workers=1, max_workers=3, steps=100)
    last = Formation(3, (Seat(Member("b", "i1"), Version(1, 40)),), 0, Version(1, 40), (0,) * 4, "s")
    take_up(scene, last, generation=3, phase=JobPhase.REGROUPING, step=40)
    scene.does(PauseJob("j", hold=True))
    if other:
        scene.beat("a", TrainerPhase.HALTED, promised=3, generation=2, version=Version(2, 3))
    else:
        scene.beat("a")
    scene.beat("b", TrainerPhase.HALTED, promised=3, generation=1, version=Version(1, 40))
    scene.after(scene.policy.form_limit + 0.1, heard="ab")
    scene.halt("a", (2, 3) if other else None)
    scene.halt("b", (1, 40))
    scene.after(scene.policy.halt_limit + 0.1, heard="ab")
    assert (scene.job.phase, scene.job.reason) == (JobPhase.PAUSED, "held at step 40, in the memory of b")
    scene.does(DrainWorker("b"))
    scene.after(30, heard="ab")
    assert scene.job.wanted is Wanted.PAUSE


def test_a_file_is_read_again_though_another_branch_has_a_higher_number(scene):
    """a took step 3 on in a generation of its own, and was silent; b went on from the step that it had made alone."""
    scene.running("a", "b", min_workers=1, steps=50, checkpoint_every=4)
    scene.train("ab", 3)
    scene.train("b", 4)
    scene.does(Disconnected("b"))
    scene.breaks("a", 1)
    scene.halt("a", (1, 3))
    scene.train("a")
    scene.does(Disconnected("a"))
    scene.after(scene.policy.detached_limit + scene.policy.detached_margin + 1)
    scene.register("b")
    scene.beat("b", TrainerPhase.BROKEN, promised=1, generation=1, version=Version(1, 4))
    scene.after(0.2, heard="b")
    for _ in range(4):
        scene.halt("b", (1, 4))
        scene.halt("b", (1, 4))
        if scene.members == ["b"]:
            break
        scene.after(scene.policy.halt_limit + 0.1, heard="b")
    assert (scene.members, scene.job.formation.base) == (["b"], Version(1, 4))
    n, file = scene.job.formation.generation, Checkpoint(Version(1, 4), "s3://c/j/4", "sum", 1)
    scene.beat("b", TrainerPhase.TRAINING, promised=n, generation=n, version=Version(n, 4))
    scene.beat("b", TrainerPhase.TRAINING, promised=n, generation=n, version=Version(n, 5), written=(file,))
    assert scene.job.saved == Version(1, 4)
    scene.exits("b")
    scene.beat("b")
    scene.does(Disconnected("b"))
    scene.register("a")
    scene.beat("a", TrainerPhase.TRAINING, promised=2, generation=2, version=Version(2, 3))
    scene.after(0.2, heard="a")
    scene.after(20, heard="a")
    for _ in range(4):
        if scene.job.round is not None:
            scene.halt("a", (2, 3))
        scene.after(5, heard="a")
        if scene.members == ["a"]:
            break
    assert (scene.members, scene.job.formation.base) == (["a"], Version(1, 4))
    n = scene.job.formation.generation
    scene.beat("a", TrainerPhase.FORMING, promised=n, generation=n, version=Version(2, 3))
    scene.says("a", CheckpointUnreadable(job="j", incarnation="i1", generation=n, error="503", damaged=False))
    scene.beat("a", TrainerPhase.BROKEN, promised=n, generation=n, version=Version(2, 3))
    if scene.job.round is not None:
        scene.halt("a", (2, 3))
    tried = scene.job.generation
    scene.after(600, heard="a")
    scene.after(60, heard="a")
    assert scene.job.generation > tried


def forgets(scene, before):
    """The coordinator begins anew, and the store lost what was decided since: generation 2, in which a and b train."""
    scene.cluster = Cluster(started=scene.now, jobs=before.jobs, workers=before.workers)
    scene.register("a", "b")
    for name in "ab":
        scene.beat(name, TrainerPhase.TRAINING, promised=2, generation=2, version=Version(2, 40))
    scene.after(0.2, heard="ab")
    scene.halt("ab", (2, 40))


@pytest.mark.parametrize("saved", [False, True])
def test_what_a_generation_made_that_the_store_lost_is_gone_on_from(scene, saved):
    """The formation of generation 2 was sent, and the store forgot it as it crashed."""
    scene.running("a", "b", min_workers=1, steps=50)
    scene.train("ab", 3)
    file = Checkpoint(Version(1, 3), "s3://c/j/3", "sum", 1)
    told = {"promised": 1, "generation": 1, "version": Version(1, 3)}
    for name in "ab" if saved else ():
        scene.beat(name, TrainerPhase.TRAINING, **told, written=(file,) if name == "a" else ())
    before = scene.cluster
    scene.breaks("a", 1)
    scene.halt("ab", (1, 3))
    scene.train("ab", 40)
    assert scene.job.formation.generation == 2
    forgets(scene, before)
    assert (scene.job.formation.base, scene.noted("rolled_back")) == (Version(2, 40), [])


def forms(scene, **told):
    """These answer until the next formation is theirs."""
    for _ in range(8):
        for name, (version, incarnation) in told.items() if scene.job.round is not None else ():
            scene.halt(name, version, incarnation)
        if scene.members == [*told]:
            return
        scene.after(scene.policy.halt_limit + 0.1, heard=[*told])
    raise AssertionError(scene.job.reason)


@pytest.fixture
def parted(scene):
    """a, b and c made one step alone, of which d and e did not hear. Those went on without them, and were cut off. a is
    back with b, which had to be started anew: they went on from that step, and their machine is gone."""
    scene.running("a", "b", "c", "d", "e", step=8, min_workers=2, steps=100)
    scene.train("abc", 9)
    for name in "abc":
        scene.does(Disconnected(name))
    scene.breaks("d", 1)
    scene.halt("de", (1, 8))
    scene.train("de")
    scene.train("de", 60)
    for name in "de":
        scene.does(Disconnected(name))
    scene.after(scene.policy.detached_limit + scene.policy.detached_margin + 1)
    scene.register("a", "b")
    scene.beat("a", TrainerPhase.BROKEN, promised=1, generation=1, version=Version(1, 9))
    scene.exits("b")
    scene.beat("b")
    scene.after(0.2, heard="ab")
    scene.prepare("b", incarnation="i2")
    forms(scene, a=((1, 9), "i1"), b=(None, "i2"))
    for step in (None, 12):
        scene.train("a", step)
        scene.train("b", step, "i2")
    scene.exits("a")
    scene.exits("b", "i2")
    for name in "ab":
        scene.does(Disconnected(name))
    scene.after(1)
    return scene


def back(scene, name, *version):
    if not scene.cluster.present(name):
        scene.register(name)
    scene.beat(name, TrainerPhase.BROKEN, promised=version[0], generation=version[0], version=Version(*version))
    scene.after(0.2, heard=name)


def test_who_is_back_with_the_most_steps_is_asked_though_its_branch_was_left(parted):
    back(parted, "c", 1, 9)
    parted.halt("c", (1, 9))
    back(parted, "d", 2, 60)
    forms(parted, c=((1, 9), "i1"), d=((2, 60), "i1"))
    assert parted.job.formation.base == Version(2, 60)


def test_what_a_job_holds_stays_when_somebody_is_back_with_fewer_steps(parted):
    back(parted, "d", 2, 60)
    parted.does(PauseJob("j", hold=True))
    parted.halt("d", (2, 60))
    parted.after(0.2, heard="d")
    assert parted.job.reason == "held at step 60, in the memory of d: no newer state is left"
    back(parted, "c", 1, 9)
    parted.after(0.2, heard="cd")
    assert [parted.cluster.workers[name].job for name in "cd"] == [None, "j"]


def test_what_goes_on_from_a_generation_that_the_store_lost_is_not_given_up_for_the_seed(scene):
    scene.running("a", "b", min_workers=1, steps=100, max_workers=2)
    scene.train("ab", 3)
    before = scene.cluster
    scene.breaks("a", 1)
    scene.halt("ab", (1, 3))
    scene.train("ab", 40)
    forgets(scene, before)
    scene.train("ab")
    scene.train("ab", 50)
    for name in "ab":
        scene.does(Disconnected(name))
    scene.register("c")
    scene.after(1, heard="c")
    scene.after(scene.policy.detached_limit + scene.policy.detached_margin + 1, heard="c")
    while scene.cluster.workers["c"].job is None:
        scene.beat("c")
        scene.after(scene.policy.halt_limit + 0.1, heard="c")
    scene.prepare("c")
    forms(scene, c=(None, "i1"))
    scene.train("c")
    scene.train("c", 2)
    scene.exits("c")
    scene.does(Disconnected("c"))
    back(scene, "a", 3, 50)
    forms(scene, a=((3, 50), "i1"))
    assert scene.job.formation.base == Version(3, 50)


def test_who_is_to_go_with_the_base_is_lent_once_though_another_branch_has_a_higher_number(scene):
    scene.running("a", "c", "d", step=3, min_workers=1, max_workers=3, steps=100)
    scene.does(DrainWorker("d"))
    seats = Seat(Member("a", "i1"), Version(1, 40)), Seat(Member("c", "i1"), Version(2, 3))
    last = Formation(3, seats, 0, Version(1, 40), (0, 0, 1, 1), "s", detached_limit=60)
    take_up(scene, last, generation=3, phase=JobPhase.REGROUPING, step=40, round=None, saver=None)
    scene.beat("c", TrainerPhase.FORMING, promised=3, generation=3, version=Version(2, 3))
    scene.does(Disconnected("a"))
    scene.notes.clear()
    for _ in range(6):
        scene.beat("d", TrainerPhase.HALTED, promised=3, generation=1, version=Version(1, 40))
        scene.beat("c", TrainerPhase.FORMING, promised=3, generation=3, version=Version(2, 3))
        scene.after(0.2, heard="cd")
    assert [note.kind for note in scene.notes] in ([], ["lent"])
    assert scene.cluster.workers["d"].job == "j"


def test_who_is_to_go_is_not_kept_for_a_held_job_whose_file_has_more_steps_than_it(scene):
    """It was to take the state of a file, and whoever read that is gone."""
    scene.running("a", "b", min_workers=1, max_workers=2, steps=100)
    file = Checkpoint(Version(1, 36), "s3://c/j/36", "sum", 1)
    seats = Seat(Member("a", "i1"), Version(1, 20)), Seat(Member("b", "i1"), None)
    last = Formation(3, seats, 1, file.version, (0, 0, 1, 1), "s", checkpoint=file, detached_limit=60)
    take_up(scene, last, generation=3, checkpoint=file, phase=JobPhase.REGROUPING, step=36, round=None)
    scene.beat("a", TrainerPhase.FORMING, promised=3, generation=3, version=Version(1, 20))
    scene.beat("b", TrainerPhase.FORMING, promised=3, generation=3)
    scene.does(PauseJob("j", hold=True))
    scene.exits("b")
    scene.does(Disconnected("b"))
    for _ in range(3):
        scene.halt("a", (1, 20))
        scene.after(scene.policy.halt_limit + 0.1, heard="a")
    scene.does(DrainWorker("a"))
    for _ in range(3):
        if scene.job.round is not None:
            scene.halt("a", (1, 20))
        scene.after(1, heard="a")
    assert scene.job.reason == "paused at step 36; its state is in s3://c/j/36: no newer state is left"
    assert scene.cluster.workers["a"].job is None


def test_who_is_to_go_is_let_go_if_another_one_holds_the_same_state_of_a_branch_that_was_left(scene):
    scene.running("a", "d", "e", step=3, min_workers=1, max_workers=3, steps=100)
    last = Formation(3, (Seat(Member("a", "i1"), Version(1, 9)),), 0, Version(1, 9), (0,) * 4, "s", detached_limit=60)
    take_up(scene, last, generation=3, step=12, spec=replace(scene.job.spec, min_workers=3))
    scene.exits("a")
    scene.beat("a")
    scene.does(Disconnected("a"))
    for _ in range(3):
        for name in "de":
            if scene.job.round is not None:
                scene.halt(name, (2, 60))
            else:
                scene.beat(name, TrainerPhase.BROKEN, promised=2, generation=2, version=Version(2, 60))
        scene.after(scene.policy.halt_limit + 0.1, heard="de")
    assert scene.job.reason == "waits for workers: 2 of 3 are ready; step 60 is kept in memory"
    scene.does(DrainWorker("d"))
    for _ in range(2):
        for name in "de" if scene.job.round is not None else "":
            scene.halt(name, (2, 60))
        scene.after(1, heard="de")
    assert [scene.cluster.workers[name].job for name in "de"] == [None, "j"]


def test_who_made_a_step_alone_is_kept_by_no_job_that_another_one_holds(scene):
    """c is back while d is not heard for a moment; another job waits for a worker."""
    scene.running("c", "d", step=8, min_workers=1, max_workers=2, steps=100)
    scene.train("c", 9)
    scene.does(Disconnected("c"))
    scene.breaks("d", 1)
    scene.halt("d", (1, 8))
    scene.train("d")
    scene.does(PauseJob("j", hold=True))
    scene.halt("d", (2, 8))
    scene.after(scene.policy.detached_limit + scene.policy.detached_margin + 1, heard="d")
    assert scene.job.reason == "held at step 8, in the memory of d"
    scene.after(5)
    back(scene, "c", 1, 9)
    assert scene.cluster.workers["c"].job == "j"
    scene.submit("k", min_workers=1, max_workers=1)
    for _ in range(3):
        scene.after(2, heard="cd")
    assert scene.cluster.workers["c"].job != "j"
