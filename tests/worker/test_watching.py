"""The judge of hangs: limits that are learned, who waits and is no suspect, and time that counts for nobody."""

from dataclasses import replace

import pytest

from regroup.core.workers import Hang, LoopPhase
from regroup.worker.pulse import Mark
from regroup.worker.watching import LOOK, Watching, is_news, limit_of

FLOOR, MOST = 4.0, 60.0


class Watched:
    """An agent that looks, and a trainer that sits where the test says."""

    def __init__(self, phase: LoopPhase = LoopPhase.COMPUTE, longest: float | None = 0.1) -> None:
        self.now, self.ticks = 1000.0, True
        self.mark = Mark(1, phase, self.now, longest, beat=1)
        self.watching = Watching(FLOOR, MOST)
        self.looks(0.0)

    def looks(self, gap: float = LOOK) -> None:
        self.now += gap
        if self.ticks:
            self.mark = replace(self.mark, beat=self.mark.beat + 1)
        self.watching = self.watching.look(self.mark, self.now)

    def sits(self, seconds: float) -> None:
        for _ in range(round(seconds / LOOK)):
            self.looks()

    def enters(self, phase: LoopPhase, longest: float | None = 0.1, fetch: int = 0) -> None:
        number = self.mark.number + 1
        self.mark = replace(self.mark, number=number, phase=phase, entered=self.now, longest=longest, fetch=fetch)

    @property
    def hang(self) -> Hang | None:
        return self.watching.hang


@pytest.mark.parametrize(
    ("longest", "limit"), [(None, 60.0), (0.0, 4.0), (0.8, 4.0), (2.0, 10.0), (11.9, 59.5), (13.0, 60.0)]
)
def test_the_limit_is_five_times_the_longest_pass_between_the_floor_and_the_step_timeout(
    longest: float | None, limit: float
) -> None:
    assert limit_of(longest, FLOOR, MOST) == pytest.approx(limit)


def test_the_step_timeout_is_above_the_floor() -> None:
    assert limit_of(0.1, 4.0, 1.0) == 1.0


def test_who_sits_in_a_phase_of_its_own_for_longer_than_its_limit_hangs() -> None:
    one = Watched()
    one.sits(4.0)
    assert one.hang is None
    one.sits(0.5)
    assert one.hang is not None
    assert (one.hang.phase, one.hang.limit, one.hang.stands) == (LoopPhase.COMPUTE, 4.0, False)
    assert 4.0 < one.hang.lasts <= 4.5


def test_who_goes_on_hangs_no_longer() -> None:
    one = Watched()
    one.sits(5.0)
    one.enters(LoopPhase.OPTIMIZER)
    one.looks()
    assert one.hang is None


@pytest.mark.parametrize("phase", [LoopPhase.COMPUTE, LoopPhase.EVALUATION, LoopPhase.COPY])
def test_a_phase_of_which_nothing_is_known_has_the_step_timeout(phase: LoopPhase) -> None:
    """As a first step that compiles, a first evaluation, a first checkpoint."""
    one = Watched(phase, longest=None)
    one.sits(59.0)
    assert one.hang is None
    one.sits(1.5)
    assert one.hang is not None


@pytest.mark.parametrize(
    "phase", [LoopPhase.EXCHANGE, LoopPhase.LEASE, LoopPhase.IDLE, LoopPhase.FORMING, LoopPhase.PREPARING]
)
def test_who_waits_for_others_or_prepares_never_hangs(phase: LoopPhase) -> None:
    one = Watched(phase)
    one.sits(100.0)
    assert one.hang is None


def test_who_waits_and_stands_still_hangs() -> None:
    one = Watched(LoopPhase.EXCHANGE)
    one.sits(10.0)
    one.ticks = False
    one.sits(4.0)
    assert one.hang is None
    one.sits(0.5)
    assert one.hang is not None
    assert (one.hang.phase, one.hang.stands) == (LoopPhase.EXCHANGE, True)


def test_a_process_that_stands_still_in_its_own_phase_is_said_to() -> None:
    one = Watched()
    one.ticks = False
    one.sits(4.5)
    assert one.hang is not None
    assert one.hang.stands


def test_a_process_that_was_stopped_in_the_middle_of_a_pass_is_said_to_stand_still_as_soon_as_it_hangs() -> None:
    one = Watched()
    one.sits(2 * LOOK)
    one.ticks = False
    one.sits(4.0 - 2 * LOOK)
    assert one.hang is None
    one.looks()
    assert one.hang is not None
    assert one.hang.stands


def test_the_time_in_which_the_agent_was_away_counts_for_nobody() -> None:
    one = Watched()
    one.ticks = False  # the machine slept, or the agent was stopped: nobody knows what the trainer did
    one.sits(3.0)
    one.looks(3600.0)
    assert one.hang is None
    one.sits(0.75)
    assert one.hang is None
    one.sits(0.75)
    assert one.hang is not None
    assert one.hang.lasts < 5.0


def test_a_pass_that_began_while_the_agent_was_away_counts_from_its_look_on() -> None:
    one = Watched()
    one.enters(LoopPhase.OPTIMIZER)
    one.looks(30.0)
    assert one.hang is None
    one.sits(3.5)
    assert one.hang is None


def test_a_mark_that_is_being_written_is_no_news() -> None:
    one = Watched()
    one.sits(3.0)
    one.watching = one.watching.look(None, one.now + LOOK)
    one.now += LOOK
    one.sits(1.25)
    assert one.hang is not None


def test_data_that_does_not_come_is_a_hang_also_once_nobody_waits_for_it_until_the_fetch_is_over() -> None:
    one = Watched()
    one.enters(LoopPhase.DATA, fetch=7)
    one.sits(4.5)
    assert one.hang is not None
    assert one.hang.fetch == 7
    one.enters(LoopPhase.IDLE, fetch=7)
    one.sits(2.0)
    one.enters(LoopPhase.FIRST_BATCH, None, fetch=7)
    one.looks()
    assert one.hang is not None
    assert one.hang.fetch == 7
    one.enters(LoopPhase.FIRST_BATCH, None, fetch=9)
    one.looks()
    assert one.hang is None


def lacking() -> Watched:
    """A trainer whose data does not come, as is said; it has answered a Halt."""
    one = Watched()
    one.enters(LoopPhase.DATA, fetch=7)
    one.sits(4.5)
    one.enters(LoopPhase.IDLE, fetch=7)
    one.sits(1.0)
    assert one.hang is not None
    assert one.hang.fetch == 7
    return one


def test_who_lacks_its_data_and_stands_still_is_said_to_stand_still_until_it_goes_on() -> None:
    one = lacking()
    before, one.ticks = one.hang, False
    one.sits(4.5)
    assert one.hang is not None
    assert (one.hang.phase, one.hang.stands, one.hang.fetch) == (LoopPhase.IDLE, True, 0)
    assert is_news(before, one.hang)
    one.ticks = True
    one.looks()
    assert one.hang is not None
    assert (one.hang.stands, one.hang.fetch) == (False, 7)


def test_who_stands_still_as_it_waits_for_its_data_is_no_longer_said_to_wait_for_it() -> None:
    one = Watched()
    one.enters(LoopPhase.DATA, fetch=7)
    one.sits(4.5)
    before, one.ticks = one.hang, False
    one.sits(4.5)
    assert one.hang is not None
    assert (one.hang.phase, one.hang.stands, one.hang.fetch) == (LoopPhase.DATA, True, 0)
    assert is_news(before, one.hang)


def test_who_lacks_its_data_and_hangs_in_something_else_is_said_to_hang_there() -> None:
    one = lacking()
    one.enters(LoopPhase.STATE, fetch=7)
    one.sits(4.5)
    assert one.hang is not None
    assert (one.hang.phase, one.hang.fetch) == (LoopPhase.STATE, 0)


def test_what_merely_lasts_longer_is_no_news() -> None:
    one = Watched()
    one.sits(4.5)
    before = one.hang
    one.sits(2.0)
    assert one.hang != before
    assert not is_news(before, one.hang)
    assert is_news(None, one.hang)
    assert is_news(one.hang, None)
