"""Members that fail to form together: who is suspected, whatever happened before."""

from regroup.core import messages as m
from regroup.core.workers import TrainerPhase


def fails_to_form(scene, reporter, *names):
    """A round in which all answer, and only `reporter` says in the end that the group did not form."""
    for name in names:
        scene.halt(name, (1, 3), incarnation=scene.incarnations[name])
    assert scene.members == sorted(names)
    n = scene.job.generation
    scene.now += scene.policy.form_limit - 1.0  # their own limit is the shorter one
    for name in names:
        scene.beat(name, TrainerPhase.FORMING, scene.incarnations[name], promised=n, generation=n)
    told = {"job": "j", "incarnation": scene.incarnations[reporter], "generation": n}
    scene.says(reporter, m.GroupBroke(**told, reason="could not form in time"))


def test_a_member_that_keeps_others_from_forming_is_found_although_somebody_died_before(scene):
    """c answers every Halt, and never connects. That d died long ago is no reason to go on with c for ever."""
    scene.running("a", "b", "c", "d", min_workers=1)
    scene.incarnations = dict.fromkeys("abcd", "i1")
    scene.says("d", m.TrainerExited(job="j", incarnation="i1", cause="killed by SIGKILL", asked=False))
    scene.register("d", boot="b2")
    for name in "abc":
        scene.halt(name, (1, 3))
    for name in "abc":
        scene.train(name)
    told = {"job": "j", "incarnation": "i1", "generation": scene.job.generation}
    scene.says("a", m.GroupBroke(**told, reason="a collective failed"))
    for reporter in "ab":
        assert not scene.noted("evicted")
        fails_to_form(scene, reporter, "a", "b", "c")
    assert [note.worker for note in scene.noted("evicted")] == ["c"]


def test_a_newcomer_that_cannot_connect_goes_before_any_holder_of_the_state(scene):
    """It reports at once that it could not form: a witness, if the others did not hold what it lacks."""
    scene.running("a", "c", min_workers=1, max_workers=3)
    scene.register("b")
    scene.prepare("b")
    scene.halt("b", None)
    for attempt in (1, 2):
        assert not scene.noted("evicted")
        for name in "ac":
            scene.halt(name, (1, 3))
        if attempt == 2:
            scene.halt("b", None)
        assert scene.members == ["a", "b", "c"]
        n = scene.job.generation
        for name in "abc":
            scene.beat(name, TrainerPhase.FORMING, promised=n, generation=n)
        scene.says("b", m.GroupBroke(job="j", incarnation="i1", generation=n, reason="connection refused"))
    assert [note.worker for note in scene.noted("evicted")] == ["b"]
    assert scene.cluster.workers["b"].errors == 1


def test_whoever_reports_that_it_could_not_form_is_no_suspect_and_counts_outlive_a_wrong_guess(scene):
    """b alone hangs. Twice it is a that reports, so c is taken first, being the last by name; then b."""
    scene.running("a", "b", "c", min_workers=1)
    scene.incarnations = dict.fromkeys("abc", "i1")
    told = {"job": "j", "incarnation": "i1", "generation": 1}
    scene.says("a", m.GroupBroke(**told, reason="a collective failed"))
    fails_to_form(scene, "a", "a", "b", "c")
    fails_to_form(scene, "a", "a", "b", "c")
    assert [note.worker for note in scene.noted("evicted")] == ["c"]
    fails_to_form(scene, "a", "a", "b")
    assert [note.worker for note in scene.noted("evicted")] == ["c", "b"]
