"""What a trainer may do and must answer, order by order and event by event."""

from dataclasses import replace

import pytest

from regroup.core.jobs import ORIGIN, Checkpoint, Fingerprint, Formation, Member, Seat, Version
from regroup.core.messages.orders import Form, Halt, RenewLease, Save
from regroup.core.messages.trainer_reports import (
    Formed,
    GroupBroke,
    Halted,
    Prepared,
    SaveFailed,
    StateSaved,
    StepFailed,
)
from regroup.core.phases import IllegalTransition
from regroup.core.workers import TrainerPhase
from regroup.worker.happenings import (
    Action,
    BreakGroup,
    CameBack,
    ChunkEvaluated,
    CollectiveBroke,
    EntersTask,
    Join,
    LastStepDone,
    LoopEvent,
    LoopFailed,
    SaveEnded,
    Say,
    StateDiscarded,
    StateHeld,
    StepApplied,
    TaskPrepared,
    Write,
    WroteBeside,
)
from regroup.worker.session import Session, begin_apply, begin_load, handle, take_task

ME, OTHER = Member("a", "i1"), Member("b", "i1")
PRINT = Fingerprint("code", "data", 100)


class Trainer:
    """A session and what it did last. Its step loop takes at once what it is given, unless it hangs, and comes back at
    once when it has nothing more to do."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.did: tuple[Action, ...] = ()
        self.hangs = False

    def gets(self, happening: Halt | Form | Save | RenewLease | LoopEvent) -> tuple[Action, ...]:
        self.session, self.did = handle(self.session, happening)
        if not self.hangs:
            self.takes()
        over = self.session.phase in (TrainerPhase.HALTED, TrainerPhase.FINISHED, TrainerPhase.BROKEN)
        if over and self.session.at_work and not self.session.applying and not self.hangs:
            self.session, more = handle(self.session, CameBack())
            self.did += more
        return self.did

    def takes(self) -> None:
        self.session = take_task(self.session)

    def begins_to_apply(self) -> None:
        assert self.session.may_apply(now=5.0)
        self.session = begin_apply(self.session)

    @property
    def said(self) -> list[object]:
        return [action.report for action in self.did if isinstance(action, Say)]


def formation(generation: int, base: Version = ORIGIN, members: tuple[Member, ...] = (ME, OTHER)) -> Formation:
    seats = tuple(Seat(member, None) for member in members)
    return Formation(generation, seats, 0, base, (0, 1), "h:1/x", detached_limit=10.0)


def form(generation: int, base: Version = ORIGIN, members: tuple[Member, ...] = (ME, OTHER), **more: float) -> Form:
    return Form("j", replace(formation(generation, base, members), **more), 100)


def halted(generation: int, version: Version | None) -> Halted:
    return Halted(job="j", incarnation="i1", generation=generation, version=version, store=f"h:1/i1.{generation}")


def prepared() -> Trainer:
    trainer = Trainer(Session(job="j", member=ME, address="h:1"))
    trainer.gets(TaskPrepared(PRINT))
    return trainer


def forming(generation: int = 1, base: Version = ORIGIN) -> Trainer:
    trainer = prepared()
    trainer.gets(Halt("j", generation))
    trainer.gets(form(generation, base))
    return trainer


def training(generation: int = 1, base: Version = ORIGIN) -> Trainer:
    trainer = forming(generation, base)
    trainer.gets(StateHeld(generation))
    trainer.gets(RenewLease(generation, sent=0.0))
    return trainer


# --- Preparing


def test_a_prepared_trainer_tells_its_fingerprint_and_rendezvous():
    trainer = prepared()
    assert trainer.said == [Prepared(job="j", incarnation="i1", fingerprint=PRINT, store="h:1/i1.0")]


def test_nothing_is_promised_while_preparing():
    trainer = Trainer(Session(job="j", member=ME, address="h:1"))
    assert trainer.gets(Halt("j", 1)) == ()
    assert trainer.session.phase is TrainerPhase.PREPARING
    assert trainer.session.promised == 0


def test_preparing_twice_is_a_bug_and_raises():
    trainer = prepared()
    with pytest.raises(IllegalTransition):
        trainer.gets(TaskPrepared(PRINT))


def test_how_far_an_evaluation_came_is_told_until_the_next_step_and_anew_in_each_generation():
    trainer = training()
    trainer.begins_to_apply()
    trainer.gets(StepApplied(1))
    assert trainer.gets(ChunkEvaluated(3)) == ()
    assert (trainer.session.status.version, trainer.session.status.evaluated) == (Version(1, 1), 3)
    trainer.gets(Halt("j", 2))
    assert trainer.session.status.evaluated == 3
    trainer.gets(form(2, Version(1, 1)))
    assert trainer.session.status.evaluated == 0
    trainer.gets(StateHeld(2))
    trainer.gets(RenewLease(2, sent=0.0))
    trainer.gets(ChunkEvaluated(4))
    trainer.begins_to_apply()
    trainer.gets(StepApplied(2))
    assert trainer.session.status.evaluated == 0


# --- Halt is a promise


def test_a_halt_is_answered_with_the_state_and_a_rendezvous_that_no_other_generation_uses():
    trainer = training(3)
    trainer.begins_to_apply()
    trainer.gets(StepApplied(1))
    trainer.gets(Halt("j", 4))
    assert trainer.said == [halted(4, Version(3, 1))]
    assert trainer.did[0] == BreakGroup()
    assert trainer.session.phase is TrainerPhase.HALTED


def test_a_repeated_halt_is_answered_again_until_the_formation_is_accepted_and_never_after():
    trainer = prepared()
    trainer.gets(Halt("j", 2))
    for _ in range(2):
        trainer.gets(Halt("j", 2))
        assert trainer.said == [halted(2, None)]
    trainer.gets(form(2))
    assert trainer.gets(Halt("j", 2)) == ()
    trainer.gets(StateHeld(2))
    assert trainer.gets(Halt("j", 2)) == ()
    trainer.gets(CollectiveBroke(2, "gone"))
    assert trainer.gets(Halt("j", 2)) == ()


def test_a_lower_halt_is_ignored():
    trainer = prepared()
    trainer.gets(Halt("j", 5))
    for phase in (None, form(5), StateHeld(5)):
        if phase is not None:
            trainer.gets(phase)
        assert trainer.gets(Halt("j", 4)) == ()
        assert trainer.gets(Halt("j", 4, boundary=True)) == ()
    assert trainer.session.promised == 5


def test_a_halted_trainer_commits_nothing_below_its_promise():
    trainer = training()
    trainer.gets(Halt("j", 2))
    assert not trainer.session.may_apply(now=5.0)
    assert not trainer.session.trains_in(1)


def test_a_higher_halt_replaces_the_promise_also_while_forming_and_saving():
    trainer = forming(1)
    trainer.gets(Halt("j", 2))
    assert trainer.said == [halted(2, None)]
    trainer = saving()
    trainer.gets(Halt("j", 3))
    assert trainer.said == [halted(3, Version(1, 0))]
    assert trainer.session.phase is TrainerPhase.HALTED


def test_a_halt_while_applying_is_owed_and_answered_after_with_the_new_version():
    trainer = training()
    trainer.begins_to_apply()
    assert trainer.gets(Halt("j", 2)) == ()
    assert trainer.session.promised == 1
    trainer.gets(StepApplied(1))
    assert trainer.said == [halted(2, Version(1, 1))]


def test_the_highest_of_several_owed_halts_is_answered():
    trainer = training()
    trainer.begins_to_apply()
    for n in (3, 4, 2):
        trainer.gets(Halt("j", n))
    trainer.gets(StepApplied(1))
    assert trainer.said == [halted(4, Version(1, 1))]


def test_no_further_step_begins_while_a_halt_is_owed():
    trainer = training()
    trainer.begins_to_apply()
    trainer.gets(Halt("j", 2))
    assert not trainer.session.trains_in(1)
    assert not trainer.session.may_apply(now=5.0)


def test_a_broken_trainer_answers_with_its_state():
    trainer = training()
    trainer.gets(CollectiveBroke(1, "gone"))
    trainer.gets(Halt("j", 2))
    assert trainer.said == [halted(2, Version(1, 0))]


# --- Boundary


def test_a_boundary_halt_is_held_while_training_and_promised_at_the_agreed_step():
    trainer = training()
    assert trainer.gets(Halt("j", 2, boundary=True)) == ()
    assert trainer.session.boundary == 2
    trainer.begins_to_apply()
    assert trainer.gets(StepApplied(1)) == ()  # another member did not hold it yet
    trainer.begins_to_apply()
    trainer.gets(StepApplied(2, agreed=2))
    assert trainer.did == (Say(halted(2, Version(1, 2))),)  # the group is left alone
    assert trainer.session.boundary is None


def test_a_boundary_is_kept_from_forming_into_training():
    trainer = forming(1)
    trainer.gets(Halt("j", 2, boundary=True))
    trainer.gets(StateHeld(1))
    assert trainer.session.phase is TrainerPhase.TRAINING
    assert trainer.session.boundary == 2


def test_a_boundary_that_is_no_longer_the_highest_is_still_promised_where_all_agreed():
    """What counts is what each contributed: the newer proposal came after that, and is due again."""
    trainer = training()
    trainer.gets(Halt("j", 2, boundary=True))
    trainer.begins_to_apply()
    trainer.gets(Halt("j", 3, boundary=True))
    trainer.gets(StepApplied(1, agreed=2))
    assert trainer.said == [halted(2, Version(1, 1))]
    trainer.gets(Halt("j", 3, boundary=True))
    assert trainer.said == [halted(3, Version(1, 1))]


def test_a_boundary_halt_is_promised_at_the_end_of_the_last_step():
    trainer = training()
    trainer.gets(Halt("j", 2, boundary=True))
    trainer.gets(LastStepDone(1))
    assert trainer.did == (Say(halted(2, Version(1, 0))),)


def test_a_boundary_halt_is_promised_at_once_where_nothing_trains():
    trainer = prepared()
    trainer.gets(Halt("j", 1, boundary=True))
    assert trainer.said == [halted(1, None)]
    trainer = training()
    trainer.gets(LastStepDone(1))
    assert trainer.session.phase is TrainerPhase.FINISHED
    trainer.gets(Halt("j", 2, boundary=True))
    assert trainer.did == (Say(halted(2, Version(1, 0))),)


def test_a_boundary_that_will_never_come_is_promised_when_the_group_breaks():
    trainer = training()
    trainer.gets(Halt("j", 2, boundary=True))
    trainer.gets(CollectiveBroke(1, "gone"))
    assert [type(report) for report in trainer.said] == [GroupBroke, Halted]
    assert trainer.session.promised == 2


def test_a_plain_halt_overrides_a_boundary():
    trainer = training()
    trainer.gets(Halt("j", 2, boundary=True))
    trainer.gets(Halt("j", 3))
    assert trainer.did == (BreakGroup(), Say(halted(3, Version(1, 0))))
    assert trainer.session.boundary is None


def test_an_owed_plain_halt_comes_before_an_agreed_boundary():
    trainer = training()
    trainer.gets(Halt("j", 2, boundary=True))
    trainer.begins_to_apply()
    trainer.gets(Halt("j", 3))
    trainer.gets(StepApplied(1, agreed=2))
    assert trainer.said == [halted(3, Version(1, 1))]


# --- Form


def test_a_form_is_accepted_while_halted_for_exactly_it_and_once():
    trainer = prepared()
    assert trainer.gets(form(1)) == ()  # never halted
    trainer.gets(Halt("j", 2))
    assert trainer.gets(form(1)) == ()
    assert trainer.gets(form(3)) == ()
    assert trainer.gets(form(2)) == (Join(formation(2), 100),)
    assert trainer.session.phase is TrainerPhase.FORMING
    assert trainer.gets(form(2)) == ()
    trainer.gets(Halt("j", 4))
    assert trainer.gets(form(2)) == ()  # delayed: it was for an older promise
    assert trainer.session.promised == 4


def test_a_form_for_another_incarnation_is_not_for_this_one():
    trainer = prepared()
    trainer.gets(Halt("j", 1))
    assert trainer.gets(form(1, members=(Member("a", "i0"), OTHER))) == ()
    assert trainer.session.phase is TrainerPhase.HALTED


def test_a_state_takes_the_generation_only_once_it_is_held_complete():
    trainer = training(1)
    trainer.begins_to_apply()
    trainer.gets(StepApplied(1))
    trainer.gets(Halt("j", 2))
    trainer.gets(form(2, base=Version(1, 3)))
    assert trainer.session.version == Version(1, 1)  # of its own, so far
    trainer.gets(StateHeld(2))
    assert trainer.session.version == Version(2, 3)
    assert trainer.said == [Formed(job="j", incarnation="i1", generation=2)]


def test_a_late_word_of_an_older_generation_holds_nothing():
    trainer = forming(1)
    trainer.gets(Halt("j", 2))
    assert trainer.gets(StateHeld(1)) == ()
    assert trainer.session.version is None
    trainer.gets(form(2))
    assert trainer.gets(StateHeld(1)) == ()
    assert trainer.gets(LastStepDone(1)) == ()
    assert trainer.gets(CollectiveBroke(1, "gone")) == ()
    assert trainer.session.phase is TrainerPhase.FORMING


def test_a_halt_while_the_leaders_state_is_swapped_in_is_answered_with_that_state():
    trainer = training(1)
    trainer.gets(Halt("j", 2))
    trainer.gets(form(2, base=Version(1, 3)))
    assert trainer.session.may_load(2)
    trainer.session = begin_load(trainer.session)
    assert trainer.gets(Halt("j", 3)) == ()  # neither the old state nor surely the new
    trainer.gets(StateHeld(2))
    assert [type(report) for report in trainer.said] == [Formed, Halted]
    assert trainer.said[1] == halted(3, Version(2, 3))
    trainer.gets(form(3, base=Version(2, 3)))
    trainer.gets(StateHeld(3))
    trainer.gets(RenewLease(3, sent=0.0))
    assert trainer.session.may_apply(now=5.0)


def test_the_leaders_state_is_not_swapped_in_after_a_halt():
    trainer = forming(1)
    trainer.gets(Halt("j", 2))
    assert not trainer.session.may_load(1)


# --- Files that were written beside the training


def files(generation: int, *steps: int) -> tuple[Checkpoint, ...]:
    return tuple(Checkpoint(Version(generation, step), f"/c/g{generation}-s{step}", "sum", 1) for step in steps)


def test_every_file_is_told_until_the_coordinator_says_that_it_knows_of_it():
    trainer = training(1)
    wrote = files(1, 4, 8, 12)
    for one in (*wrote, wrote[2]):  # a state may be written twice, to one file
        trainer.gets(WroteBeside(one))
    assert trainer.session.status.written == wrote
    trainer.gets(RenewLease(1, sent=1.0, settled=("/c/g1-s8", "/c/other")))
    assert trainer.session.status.written == (wrote[0], wrote[2])
    trainer.gets(RenewLease(0, sent=2.0, settled=("/c/g1-s4",)))  # in no generation that was issued
    assert trainer.session.status.written == (wrote[2],)
    assert trainer.session.heard == 1.0


def test_while_eight_files_of_a_generation_wait_for_an_answer_no_other_is_to_be_written():
    trainer = training(1)
    for one in (*files(1, *range(1, 9)), *files(2, *range(1, 8))):
        trainer.gets(WroteBeside(one))
    assert not trainer.session.may_write(1)
    assert trainer.session.may_write(2)
    trainer.gets(RenewLease(1, sent=1.0, settled=("/c/g1-s1",)))
    assert trainer.session.may_write(1)


# --- The lease


def test_no_step_is_applied_before_the_first_lease_and_after_it_ran_out():
    trainer = forming(1)
    trainer.gets(StateHeld(1))
    assert not trainer.session.may_apply(now=0.0)
    trainer.gets(RenewLease(1, sent=0.0))
    assert trainer.session.may_apply(now=9.9)
    assert not trainer.session.may_apply(now=10.0)
    assert trainer.session.version == Version(1, 0)  # it keeps its state, and waits


def test_a_lease_lasts_as_long_as_its_formation_says():
    """Whoever may roll back past it counts by the same number, whatever the policy has become since."""
    trainer = forming(1)
    trainer.gets(StateHeld(1))
    assert trainer.session.formation is not None
    trainer.gets(RenewLease(1, sent=100.0))
    assert trainer.session.lease == 100.0 + trainer.session.formation.detached_limit


def test_a_lease_of_a_longer_limit_does_not_outlive_its_generation():
    """A coordinator was restarted with a shorter one: in the new generation everybody counts by that."""
    trainer = training(1)
    assert trainer.session.lease == 10.0
    trainer.gets(Halt("j", 3))
    trainer.gets(form(3, base=Version(1, 1), detached_limit=2.0))
    trainer.gets(StateHeld(3))
    assert trainer.session.lease == 2.0
    assert not trainer.session.may_apply(now=2.0)


def test_only_an_answer_that_names_the_own_generation_renews_the_lease():
    trainer = training(2)
    for generation in (1, 3):
        trainer.gets(RenewLease(generation, sent=89.0))
        assert trainer.session.lease == 10.0


def test_an_older_answer_does_not_shorten_the_lease():
    trainer = training(1)
    trainer.gets(RenewLease(1, sent=-7.0))
    assert trainer.session.lease == 10.0


def test_no_order_and_no_event_renews_the_lease():
    trainer = training(1)
    for happening in (
        Halt("j", 2, boundary=True),
        StepApplied(1),
        Halt("j", 3),
        Save("j", 3, Version(1, 1)),
        SaveEnded(SaveFailed(job="j", incarnation="i1", generation=3, error="full")),
        form(3, base=Version(1, 1)),
        StateHeld(3),
        LastStepDone(3),
    ):
        trainer.gets(happening)
        assert trainer.session.lease == 10.0


# --- Failures


def failure(step: int = 0) -> StepFailed:
    return StepFailed(job="j", incarnation="i1", generation=1, step=step, shard=2, error="E: x", traceback="T")


def test_user_code_that_raises_leaves_the_state_as_it_was():
    trainer = training()
    assert trainer.gets(LoopFailed(failure())) == (BreakGroup(), Say(failure()))
    assert trainer.session.phase is TrainerPhase.BROKEN
    trainer.gets(Halt("j", 2))
    assert trainer.said == [halted(2, Version(1, 0))]


def test_user_code_of_an_older_generation_that_raises_late_breaks_nothing():
    trainer = training()
    trainer.gets(Halt("j", 2))
    trainer.gets(form(2, base=Version(1, 0)))
    assert trainer.gets(LoopFailed(failure())) == (Say(failure()),)
    assert trainer.gets(StateDiscarded(1, "its digest differs")) == ()
    assert (trainer.session.phase, trainer.session.version) == (TrainerPhase.FORMING, Version(1, 0))


def test_a_torn_state_answers_none():
    trainer = training()
    trainer.begins_to_apply()
    trainer.gets(LoopFailed(failure(), torn=True))
    trainer.gets(Halt("j", 2))
    assert trainer.said == [halted(2, None)]


def test_a_halt_owed_by_a_torn_trainer_is_answered_with_none():
    trainer = training()
    trainer.begins_to_apply()
    trainer.gets(Halt("j", 2))
    trainer.gets(LoopFailed(failure(), torn=True))
    assert trainer.said == [failure(), halted(2, None)]
    trainer.gets(form(2, base=Version(1, 0)))
    trainer.gets(StateHeld(2))
    assert trainer.session.version == Version(2, 0)
    assert not trainer.session.applying


def test_a_state_that_differs_from_the_leaders_is_nobodys():
    trainer = training()
    trainer.gets(StateDiscarded(1, "its digest differs"))
    assert trainer.session.phase is TrainerPhase.BROKEN
    trainer.gets(Halt("j", 2))
    assert trainer.said == [halted(2, None)]


def test_a_state_is_not_discarded_once_it_was_answered():
    """Whoever forms or saves from that answer must find what it promised; the next generation compares again."""
    trainer = training()
    trainer.gets(Halt("j", 2))
    assert trainer.gets(StateDiscarded(1, "its digest differs")) == ()
    assert trainer.gets(Save("j", 2, Version(1, 0))) == (Write(2, Version(1, 0)),)


def test_a_discarded_state_is_not_answered_to_a_boundary_that_was_held():
    trainer = training()
    trainer.gets(Halt("j", 2, boundary=True))
    trainer.gets(StateDiscarded(1, "its digest differs"))
    assert trainer.said[-1] == halted(2, None)


def test_a_broken_group_is_reported_once():
    trainer = training()
    trainer.gets(CollectiveBroke(1, "gone"))
    assert trainer.said == [GroupBroke(job="j", incarnation="i1", generation=1, reason="gone")]
    assert trainer.gets(CollectiveBroke(1, "gone")) == ()
    assert not trainer.session.trains_in(1)


# --- Saving


def saving() -> Trainer:
    trainer = training()
    trainer.gets(Halt("j", 2))
    trainer.gets(Save("j", 2, Version(1, 0)))
    return trainer


def saved(generation: int) -> StateSaved:
    return StateSaved(
        job="j", incarnation="i1", generation=generation, checkpoint=Checkpoint(Version(1, 0), "p", "c", 1)
    )


@pytest.mark.parametrize(
    "order", [Save("j", 1, Version(1, 0)), Save("j", 3, Version(1, 0)), Save("j", 2, Version(1, 1))]
)
def test_a_save_that_is_not_exactly_what_was_promised_is_ignored(order):
    trainer = training()
    assert trainer.gets(replace(order, generation=1)) == ()  # it trains
    trainer.gets(Halt("j", 2))
    assert trainer.gets(order) == ()


def test_a_save_is_done_once_per_order_and_reported():
    trainer = saving()
    assert trainer.did == (Write(2, Version(1, 0)),)
    assert trainer.gets(Save("j", 2, Version(1, 0))) == ()  # it is at it
    assert trainer.gets(Halt("j", 2)) == ()
    trainer.gets(SaveEnded(saved(2)))
    assert trainer.said == [saved(2)]
    assert trainer.session.phase is TrainerPhase.HALTED


def test_a_state_that_was_saved_is_told_of_until_the_coordinator_says_that_it_knows_of_it():
    """The report of it may be lost with the connection, and its trainer die."""
    trainer = saving()
    trainer.gets(SaveEnded(saved(2)))
    assert trainer.session.status.written == (saved(2).checkpoint,)
    trainer.gets(RenewLease(0, sent=1.0, settled=(saved(2).checkpoint.path,)))
    assert trainer.session.status.written == ()


def test_who_has_saved_and_is_asked_again_says_so_again_and_writes_nothing():
    trainer = saving()
    trainer.gets(SaveEnded(saved(2)))
    assert trainer.gets(Save("j", 2, Version(1, 0))) == (Say(saved(2)),)
    trainer.gets(Halt("j", 3))
    assert trainer.gets(Save("j", 3, Version(1, 0))) == (Write(3, Version(1, 0)),)


def test_a_failed_save_keeps_the_state_and_can_be_ordered_again():
    trainer = saving()
    trainer.gets(SaveEnded(SaveFailed(job="j", incarnation="i1", generation=2, error="disk full")))
    assert trainer.session.version == Version(1, 0)
    assert trainer.gets(Save("j", 2, Version(1, 0))) == (Write(2, Version(1, 0)),)


def test_the_end_of_an_older_save_does_not_end_a_newer_one():
    trainer = saving()
    trainer.gets(CameBack())  # it writes
    trainer.gets(Halt("j", 3))
    trainer.gets(Save("j", 3, Version(1, 0)))
    trainer.gets(SaveEnded(saved(2)))
    assert trainer.said == [saved(2)]
    assert trainer.session.phase is TrainerPhase.SAVING
    trainer.gets(SaveEnded(saved(3)))
    assert trainer.session.phase is TrainerPhase.HALTED


def test_no_formation_is_accepted_while_saving():
    trainer = saving()
    assert trainer.gets(form(2)) == ()


def test_the_status_tells_all_that_a_coordinator_must_know():
    status = training(3).session.status
    assert (status.job, status.incarnation, status.phase) == ("j", "i1", TrainerPhase.TRAINING)
    assert (status.promised, status.generation, status.version) == (3, 3, Version(3, 0))
    assert (status.fingerprint, status.store) == (PRINT, "h:1/i1.3")


# --- A step loop that does not come back


def test_a_promise_holds_at_once_and_is_told_when_the_step_loop_is_out_of_its_last_formation():
    """It may be in the task's code, and hang there: nothing can be begun with it."""
    trainer = training(1)
    trainer.hangs = True
    assert trainer.gets(Halt("j", 2)) == (BreakGroup(),)
    assert trainer.session.status.at_work
    assert not trainer.session.may_apply(now=5.0)
    assert trainer.gets(Halt("j", 2)) == ()
    assert trainer.gets(form(2)) == ()
    trainer.gets(CameBack())
    assert trainer.said == [halted(2, Version(1, 0))]
    assert not trainer.session.status.at_work
    trainer.gets(form(2, base=Version(1, 0)))
    assert trainer.session.phase is TrainerPhase.FORMING


def test_whoever_comes_back_without_a_promise_says_nothing():
    trainer = training(1)
    trainer.hangs = True
    trainer.gets(CollectiveBroke(1, "a neighbour is gone"))
    assert trainer.gets(CameBack()) == ()
    trainer.gets(Halt("j", 2))
    assert trainer.said == [halted(2, Version(1, 0))]


def test_a_saver_that_writes_for_long_answers_a_new_halt_all_the_same():
    """Its state may be durable in the end, and others hold it, too."""
    trainer = training(1)
    trainer.gets(Halt("j", 2))
    trainer.gets(Save("j", 2, Version(1, 0)))
    trainer.gets(CameBack())
    trainer.hangs = True
    trainer.gets(Halt("j", 3))
    assert trainer.said == [halted(3, Version(1, 0))]


def test_a_saver_in_the_tasks_code_answers_once_it_is_out_of_it():
    """Of its state, or of its report: it may hang there."""
    trainer = training(1)
    trainer.gets(Halt("j", 2))
    trainer.gets(Save("j", 2, Version(1, 0)))
    trainer.gets(EntersTask())
    trainer.hangs = True
    assert trainer.session.status.at_work
    assert trainer.gets(Halt("j", 3)) == (BreakGroup(),)
    assert trainer.gets(Save("j", 3, Version(1, 0))) == ()
    trainer.gets(CameBack())
    assert trainer.said == [halted(3, Version(1, 0))]
    file = Checkpoint(Version(1, 0), "p", "c", 1)
    trainer.gets(EntersTask(file))
    assert (trainer.session.status.at_work, trainer.session.status.written) == (True, (file,))
    assert trainer.gets(Save("j", 3, Version(1, 0))) == ()
    trainer.gets(SaveEnded(saved(2)))
    assert trainer.session.status.at_work
    trainer.gets(CameBack())
    assert trainer.gets(Save("j", 3, Version(1, 0))) == (Write(3, Version(1, 0)),)


def test_whoever_comes_back_to_a_formation_that_waits_is_at_work_all_the_time():
    """It was formed with while it wrote for long. Else a Halt would be answered from within that formation."""
    trainer = training(1)
    trainer.gets(Halt("j", 2))
    trainer.gets(Save("j", 2, Version(1, 0)))
    trainer.takes()
    trainer.hangs = True
    trainer.gets(EntersTask())
    trainer.gets(CameBack())
    trainer.gets(Halt("j", 3))
    assert trainer.said == [halted(3, Version(1, 0))]
    trainer.gets(form(3, base=Version(1, 0)))
    trainer.gets(SaveEnded(saved(2)))
    assert trainer.gets(CameBack()) == ()
    trainer.takes()
    trainer.gets(StateHeld(3))
    assert trainer.session.status.at_work
    assert trainer.gets(Halt("j", 4)) == (BreakGroup(),)
    assert trainer.gets(form(4, base=Version(3, 0))) == ()
    trainer.gets(CameBack())
    assert trainer.said == [halted(4, Version(3, 0))]


def test_a_halt_that_overtakes_what_waits_is_answered_when_that_was_taken_and_left():
    trainer = training(1)
    trainer.gets(Halt("j", 2))
    trainer.hangs = True
    trainer.gets(form(2, base=Version(1, 0)))
    trainer.gets(Halt("j", 3))
    assert trainer.gets(CameBack()) == ()
    trainer.takes()
    trainer.gets(CollectiveBroke(2, "broken on purpose"))
    trainer.gets(CameBack())
    assert trainer.said == [halted(3, Version(1, 0))]


def test_what_was_written_is_told_before_the_task_is_asked_for_its_report():
    trainer = saving()
    file = Checkpoint(Version(1, 0), "p", "c", 1)
    assert trainer.gets(EntersTask()) == ()
    assert trainer.session.status.written == ()
    assert trainer.gets(EntersTask(file)) == ()
    status = trainer.session.status
    assert (status.phase, status.written, status.at_work) == (TrainerPhase.SAVING, (file,), True)
    trainer.gets(SaveEnded(saved(2)))
    assert not trainer.session.status.at_work
