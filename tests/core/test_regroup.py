"""What the answers to a Halt mean: one test for each hazard that rules 2, 3, 4, 6 and 7 close."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from regroup.core.cluster import Answer
from regroup.core.jobs import (
    ORIGIN,
    Checkpoint,
    Fingerprint,
    Formation,
    Job,
    JobPhase,
    Link,
    Member,
    Seat,
    StepFailure,
    Version,
    Wanted,
)
from regroup.core.regroup import NothingToSave, SaveState, Train, Wait, conclude
from regroup.core.shards import assign
from regroup.core.spec import JobSpec

A, B, C, D = (Member(name, "i1") for name in "abcd")


def answers(states: Mapping[Member, tuple[int, int] | None]) -> dict[Member, Answer]:
    return {
        member: Answer(Version(*state) if state else None, f"{member.worker}:1/{member.incarnation}.9")
        for member, state in states.items()
    }


def job(*listed: Member, base: Version = ORIGIN, generation: int = 1, steps: int = 100, **changes: object) -> Job:
    spec = {"min_workers": 1, "max_workers": 4} | {
        key: changes.pop(key) for key in ("min_workers", "max_workers", "micro_batch") if key in changes
    }
    seats = tuple(Seat(member, base if base != ORIGIN else None) for member in listed)
    formation = Formation(generation, seats, 0, base, assign(8, len(listed)), "s") if listed else None
    if listed:  # all generations before it are of its line
        links = [Link(each, each - 1, min(each - 1, base.step)) for each in range(1, base.generation + 1)]
        changes.setdefault("history", (*links, Link(generation, base.generation, base.step)))
    return Job(
        id="j",
        spec=JobSpec(task="digits", steps=steps, global_batch=8, shards=8, **spec),
        submitted=0.0,
        phase=JobPhase.REGROUPING,
        generation=9,
        formation=formation,
        fingerprint=Fingerprint("c", "d", 100),
        **changes,
    )


def train(job: Job, states: Mapping[Member, tuple[int, int] | None], passed: set[Member] | None = None) -> Train:
    verdict = conclude(job, 9, answers(states), passed or set())
    assert isinstance(verdict, Train), verdict
    return verdict


# --- Rule 4: the leader


def test_the_leader_has_the_highest_step_of_the_newest_generation():
    verdict = train(job(A, B, C), {A: (1, 5), B: (1, 6), C: (1, 5)})
    assert verdict.formation.members[verdict.formation.leader] == B
    assert verdict.formation.base == Version(1, 6)
    assert verdict.formation.receivers == (0, 2)
    assert not verdict.rolled_back


def test_a_newer_generation_leads_over_a_higher_step_of_an_older_one():
    """C committed one step more before it learned that generation 1 was over: that step is void."""
    verdict = train(job(A, B, generation=2, base=Version(1, 5)), {A: (2, 5), B: (2, 5), C: (1, 6)})
    assert verdict.formation.base == Version(2, 5)
    assert verdict.formation.members[verdict.formation.leader] == A
    assert verdict.formation.receivers == (2,)


def test_the_same_step_of_another_generation_is_replaced_too():
    verdict = train(job(A, B, generation=2, base=Version(1, 4)), {A: (2, 5), C: (1, 5)})
    assert verdict.formation.receivers == (1,)


def test_the_formation_quotes_the_leaders_rendezvous_and_the_halts_generation():
    verdict = train(job(A, B), {A: (1, 5), B: (1, 6)})
    assert verdict.formation.store == "b:1/i1.9"
    assert verdict.formation.generation == 9


def test_members_with_the_leaders_state_are_not_replaced():
    verdict = train(job(A, B, C), {A: (1, 5), B: (1, 5), C: (1, 5)})
    assert verdict.formation.receivers == ()


# --- Rules 2 and 3: from these answers alone, of these incarnations


def test_only_those_who_answered_are_seated():
    verdict = train(job(A, B, C), {B: (1, 5)})
    assert verdict.formation.members == (B,)


def test_a_restarted_trainer_is_somebody_else():
    """The new incarnation of A has no state, and does not vouch for the old one."""
    again = Member("a", "i2")
    verdict = conclude(job(A, base=Version(1, 0)), 9, answers({again: None}), set())
    assert isinstance(verdict, Wait)
    assert verdict.missing == (A,)
    assert train(job(A), {again: None}, passed={A}).rolled_back


def test_ownership_is_a_partition_among_the_seats_and_turns_with_each_formation():
    states = {A: (1, 5), B: (1, 5), C: None}
    formations = [train(job(A, B, history=(Link(1, 0, 0),) * n), states).formation for n in range(3)]
    assert [formation.owners for formation in formations] == [assign(8, 3, turn=n) for n in range(3)]
    assert all(set(formation.owners) == {0, 1, 2} for formation in formations)


def test_where_not_every_failed_shard_can_get_another_worker_the_latest_failure_does():
    """Shards are owned in slices, so with two workers one of these two stays with whoever failed in it."""
    early, late = StepFailure(5, 1, "a", "died", died=True), StepFailure(5, 7, "a", "raised")
    for failures, moved in (((early, late), 7), ((late, early), 1)):
        for turn in range(2):
            history = (Link(1, 0, 0),) * (1 + turn)
            formation = train(job(A, B, history=history, failures=failures), {A: (1, 5), B: (1, 5)}).formation
            assert formation.members[formation.owners[moved]] == B


def test_the_jobs_micro_batch_is_carried_by_the_formation():
    assert train(job(A, micro_batch=2), {A: (1, 5)}).formation.micro_batch == 2


def test_one_worker_that_reaches_nobody_is_enough_where_the_final_state_is_durable():
    file = Checkpoint(Version(1, 10), "/c/s10", "sum", 1)
    asked = job(A, steps=10, checkpoint=file, min_workers=2)
    verdict = conclude(asked, 9, answers({B: None, C: None}), {A}, apart={"c"})
    assert isinstance(verdict, Train)
    assert verdict.formation.members == (B,)


# --- A branch that was left: generation 4 was put back to step 8, and 5 went on from step 40 of before

BRANCHES = (Link(1, 0, 0), Link(2, 1, 5), Link(4, 2, 8), Link(5, 2, 40))


def test_a_higher_number_on_another_branch_does_not_lead_beside_the_last_formations_base():
    verdict = train(job(A, B, generation=5, base=Version(2, 40), history=BRANCHES), {A: (1, 5), B: (2, 40), C: (4, 8)})
    assert verdict.formation.base == Version(2, 40)
    assert verdict.formation.members[verdict.formation.leader] == B


def test_nor_is_whoever_may_hold_more_given_up_for_it():
    asked = job(A, B, generation=5, base=Version(2, 40), history=BRANCHES)
    verdict = conclude(asked, 9, answers({A: (1, 5), C: (4, 8)}), set())
    assert isinstance(verdict, Wait)
    assert verdict.missing == (B,)


def test_once_all_of_the_last_generation_is_lost_a_file_of_more_steps_comes_before_another_branch():
    file = Checkpoint(Version(2, 40), "/c/s40", "sum", 1)
    asked = job(A, B, generation=5, base=Version(2, 40), history=BRANCHES, checkpoint=file)
    verdict = train(asked, {A: (1, 5), C: (4, 8)}, passed={B})
    assert verdict.rolled_back
    assert (verdict.formation.base, verdict.formation.checkpoint) == (Version(2, 40), file)
    waits = conclude(asked, 9, answers({A: (1, 5), C: (4, 8)}), {B}, unheard={D: Version(2, 41)})
    assert isinstance(waits, Wait)
    assert waits.missing == (D,)


@pytest.mark.parametrize(("other", "base"), [((4, 8), (2, 40)), ((4, 50), (4, 50))])
def test_or_else_the_state_with_the_most_steps_is_gone_on_from_on_whatever_branch(other, base):
    asked = job(A, B, generation=5, base=Version(2, 40), history=BRANCHES)
    verdict = train(asked, {C: other, D: (2, 40)}, passed={A, B})
    assert (verdict.rolled_back, verdict.formation.base) == (True, Version(*base))


def test_nor_is_a_job_that_is_to_stop_trained_on_while_one_of_the_last_generation_may_be():
    """To stop does not wait until the lease of who is cut off is over."""
    asked = job(A, base=Version(1, 3), generation=2, wanted=Wanted.STOP, history=(Link(1, 0, 0), Link(2, 1, 3)))
    verdict = conclude(asked, 9, answers({B: (1, 3), C: None}), {A}, tried=(B,), leased=True)
    assert isinstance(verdict, SaveState)
    assert verdict.rolled_back


# --- Rule 6: the anchor


def test_before_any_formation_the_lowest_rank_builds_the_state_from_the_seed():
    verdict = train(job(), {B: None, C: None})
    assert verdict.formation.base == ORIGIN
    assert (verdict.formation.leader, verdict.formation.members) == (0, (B, C))
    assert verdict.formation.receivers == (1,)
    assert not verdict.rolled_back


def test_without_an_anchor_it_waits_and_says_for_whom():
    verdict = conclude(job(A, B), 9, answers({C: (1, 4), D: None}), set())
    assert isinstance(verdict, Wait)
    assert verdict.missing == (A, B)
    assert (
        verdict.reason
        == "the state of generation 1 may live on a, b: waiting for it to answer, or for its lease to be over"
    )


@pytest.mark.parametrize("wanted", [Wanted.HOLD, Wanted.PAUSE])
def test_a_job_that_is_to_rest_and_waits_for_a_silent_member_says_how_to_go_on_without(wanted):
    verdict = conclude(replace(job(A, B), wanted=wanted), 9, answers({C: (1, 4)}), set())
    assert isinstance(verdict, Wait)
    assert verdict.reason.endswith("waiting for it to answer, resume or stop the job to go on without it")


def test_one_listed_member_with_state_is_anchor_enough():
    """Every step needs every member, so its promise ended that generation."""
    verdict = train(job(A, B, C), {B: (1, 7)})
    assert verdict.formation.base == Version(1, 7)
    assert not verdict.rolled_back


def test_a_listed_member_without_state_is_no_anchor():
    """Torn, or a newcomer: what the others hold is not known."""
    verdict = conclude(job(A, B), 9, answers({B: None}), set())
    assert isinstance(verdict, Wait)
    assert verdict.missing == (A,)


def test_an_anchor_need_not_be_the_leader():
    verdict = train(job(A, B), {B: (1, 5), C: (1, 6)})
    assert verdict.formation.base == Version(1, 6)


def test_a_listed_member_that_never_got_the_base_does_not_put_the_others_back_to_its_own():
    """C was listed with an old state; before it had the base, A fell silent with the only new one."""
    last = job(A, C, generation=6, base=Version(5, 50))
    verdict = conclude(last, 9, answers({C: (1, 3)}), set())
    assert isinstance(verdict, Wait)
    assert verdict.missing == (A,)
    assert train(last, {C: (1, 3)}, passed={A}).rolled_back
    assert train(last, {C: (1, 3), A: (5, 50)}).formation.base == Version(5, 50)


def test_no_roll_back_goes_below_what_somebody_said_who_has_not_answered_yet():
    last = job(A, base=Version(2, 5), generation=3)
    verdict = conclude(last, 9, answers({C: None}), {A}, unheard={B: Version(2, 5)})
    assert isinstance(verdict, Wait)
    assert verdict.missing == (B,)
    assert "the most advanced state left may be b's" in verdict.reason
    stopping = replace(last, wanted=Wanted.STOP)
    assert isinstance(conclude(stopping, 9, {}, {A}, unheard={B: Version(2, 5)}), Wait)
    assert isinstance(conclude(stopping, 9, {}, {A}), NothingToSave)
    equal = conclude(last, 9, answers({C: (2, 5)}), {A}, unheard={B: Version(2, 5)})
    assert isinstance(equal, Train)
    assert equal.rolled_back


def test_the_base_may_come_from_a_holder_that_had_no_seat():
    """D answered before, but all seats were taken: its state is the last base all the same."""
    last = job(A, C, generation=6, base=Version(5, 50))
    assert train(last, {C: (1, 3), D: (5, 50)}).formation.base == Version(5, 50)


# --- Rule 7: the roll-back


def test_nobody_rolls_back_while_one_member_is_neither_dead_nor_silent_nor_heard():
    assert isinstance(conclude(job(A, B), 9, answers({C: None}), {A}), Wait)


def test_known_dead_and_silent_members_let_it_roll_back():
    verdict = train(job(A, B), {C: None}, passed={A, B})
    assert verdict.rolled_back
    assert verdict.formation.base == ORIGIN
    assert "no state is left" in verdict.reason


def test_a_member_that_answered_this_halt_itself_is_not_waited_for():
    verdict = train(job(A, B), {A: None, C: None}, passed={B})
    assert verdict.rolled_back
    assert verdict.formation.members == (A, C)


def test_the_most_advanced_state_left_is_an_evicted_workers():
    verdict = train(job(A, B, generation=3, base=Version(2, 8)), {C: (1, 6), D: (1, 5)}, passed={A, B})
    assert verdict.rolled_back
    assert verdict.formation.base == Version(1, 6)
    assert verdict.formation.members[verdict.formation.leader] == C
    assert "from step 6, the most advanced state left" in verdict.reason


def test_after_a_total_loss_everybody_receives_the_state_of_the_seed():
    verdict = train(job(A, B), {C: None, D: None}, passed={A, B})
    assert verdict.formation.receivers == (1,)


# --- Seats


def test_fewer_than_min_workers_wait_with_their_state():
    verdict = conclude(job(A, B, min_workers=2), 9, answers({A: (1, 5)}), {B})
    assert isinstance(verdict, Wait)
    assert verdict.reason == "waits for workers: 1 of 2 are ready; step 5 is kept in memory"
    assert verdict.missing == ()


def test_max_workers_limits_the_seats_and_the_leader_always_has_one():
    verdict = train(job(A, B, C, max_workers=2), {A: None, B: (1, 4), C: (1, 4), D: (1, 5)})
    assert len(verdict.formation.seats) == 2
    assert verdict.formation.members[verdict.formation.leader] == D


def test_members_that_need_no_transfer_are_seated_before_others():
    verdict = train(job(B, C, max_workers=2), {A: None, B: (1, 4), C: (1, 4)})
    assert verdict.formation.members == (B, C)


def test_seats_tell_what_was_answered():
    formation = train(job(A), {A: (1, 4), B: None}).formation
    assert formation.seats == (Seat(A, Version(1, 4)), Seat(B, None))


# --- The end


def test_a_finished_job_is_saved_by_a_holder_of_the_final_state():
    verdict = conclude(job(A, B, steps=7), 9, answers({A: (1, 6), B: (1, 7)}), set())
    assert isinstance(verdict, SaveState)
    assert (verdict.saver, verdict.version) == (B, Version(1, 7))


def test_a_job_one_step_short_trains_on():
    assert isinstance(conclude(job(A, steps=7), 9, answers({A: (1, 6)}), set()), Train)


def test_a_finished_job_needs_no_min_workers_to_be_saved():
    verdict = conclude(job(A, B, steps=7, min_workers=2), 9, answers({A: (1, 7)}), {B})
    assert isinstance(verdict, SaveState)


def test_a_stopping_job_saves_where_it_is():
    verdict = conclude(job(A, B, wanted=Wanted.STOP, min_workers=2), 9, answers({A: (1, 3), B: (1, 4)}), set())
    assert isinstance(verdict, SaveState)
    assert (verdict.saver, verdict.version) == (B, Version(1, 4))


def test_members_that_failed_to_save_are_asked_last():
    asked = job(A, B, wanted=Wanted.STOP)
    states = answers({A: (1, 4), B: (1, 4)})
    savers = [conclude(asked, 9, states, set(), tried) for tried in ((), (A,), (A, B), (A, B, A), (A, A))]
    assert [verdict.saver for verdict in savers if isinstance(verdict, SaveState)] == [A, B, A, B, B]


def test_a_stopping_job_that_committed_nothing_ends_unsaved():
    assert isinstance(conclude(job(wanted=Wanted.STOP), 9, answers({A: None}), set()), NothingToSave)


def test_a_stopping_job_does_not_give_up_a_state_that_may_live():
    """Its holder may be about to come back, as all do after a coordinator's restart."""
    verdict = conclude(job(A, B, wanted=Wanted.STOP), 9, {}, {B})
    assert isinstance(verdict, Wait)
    assert verdict.missing == (A,)
    lost = conclude(job(A, B, wanted=Wanted.STOP), 9, {}, {A, B})
    assert isinstance(lost, NothingToSave)
    assert lost.reason == "stopped without a checkpoint: no state is left"


def test_a_worker_that_has_not_tried_to_read_the_checkpoint_leads_before_one_whose_last_trainer_could_not():
    again = Member("a", "i2")
    verdict = conclude(job(), 9, answers({again: None, C: None}), set(), unable={A: "no such file"})
    assert isinstance(verdict, Train)
    assert verdict.formation.members[verdict.formation.leader] == C


# --- Who cannot reach the others


def test_who_is_apart_from_the_others_takes_no_part_where_nobody_holds_the_state_and_enough_are_left():
    verdict = conclude(job(A, min_workers=2), 9, answers({A: None, B: None, C: None}), set(), apart={"a"})
    assert isinstance(verdict, Train)
    assert verdict.formation.members == (B, C)


def test_but_it_does_where_none_of_the_others_can_read_the_checkpoint():
    durable = replace(job(A, min_workers=2), checkpoint=Checkpoint(Version(1, 4), "/c/j", "sum", 1))
    states = answers({A: None, B: None, C: None})
    verdict = conclude(durable, 9, states, {A}, unable={B: "no such file"}, apart={"a"})
    assert isinstance(verdict, Train)
    assert (verdict.formation.members, verdict.formation.leader) == ((B, C), 1)
    verdict = conclude(durable, 9, states, {A}, unable={B: "no such file", C: "no such file"}, apart={"a"})
    assert isinstance(verdict, Train)
    assert verdict.formation.members[verdict.formation.leader] == A


@pytest.mark.parametrize("states", [{A: (1, 5), B: None, C: None}, {A: None, B: None}])
def test_but_it_does_where_it_alone_holds_the_state_or_the_others_are_too_few(states):
    verdict = conclude(job(A, min_workers=2), 9, answers(states), set(), apart={"a"})
    assert isinstance(verdict, Train)
    assert A in verdict.formation.members


# --- Whoever holds the final state cannot save it


def test_who_could_not_save_the_final_state_gives_it_to_another_one():
    done, states = job(A, steps=7, min_workers=1), answers({A: (1, 7), B: None})
    assert isinstance(conclude(done, 9, states, set()), SaveState)
    verdict = conclude(done, 9, states, set(), tried=(A,))
    assert isinstance(verdict, Train)
    assert (verdict.formation.members, verdict.formation.leader) == ((A, B), 0)


@pytest.mark.parametrize("wanted", [Wanted.STOP, Wanted.PAUSE, Wanted.YIELD])
def test_nor_does_a_job_that_is_to_rest_stand_still_for_a_full_disk(wanted):
    asked, states = job(A, B, wanted=wanted), answers({A: (1, 4), B: None})
    assert isinstance(conclude(asked, 9, states, set()), SaveState)
    verdict = conclude(asked, 9, states, set(), tried=(A,))
    assert isinstance(verdict, Train)
    assert verdict.formation.members == (A, B)


def test_not_where_there_is_no_room_nor_to_one_that_is_to_go_nor_if_another_one_has_yet_to_try():
    full = job(A, steps=7, max_workers=1)
    assert isinstance(conclude(full, 9, answers({A: (1, 7), B: None}), set(), tried=(A,)), SaveState)
    done = job(A, B, steps=7)
    states = answers({A: (1, 7), C: None})
    assert isinstance(conclude(done, 9, states, {B}, tried=(A,), departing={"c"}), SaveState)
    few = job(A, steps=7, min_workers=3)
    assert isinstance(conclude(few, 9, answers({A: (1, 7), B: None}), set(), tried=(A,)), SaveState)
    both = answers({A: (1, 7), B: (1, 7), C: None})
    verdict = conclude(done, 9, both, set(), tried=(A,))
    assert isinstance(verdict, SaveState)
    assert verdict.saver == B
