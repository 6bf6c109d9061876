"""The marks of a step loop, read by another one through the file."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from regroup.core.workers import LoopPhase
from regroup.worker import pulse
from regroup.worker.pulse import ENOUGH, PASSES, SIZE, Pulse, last_mark


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "w0.pulse"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Of the pulse alone: an event loop in another thread would sleep until the clock is there again where it was."""
    now = [100.0]
    monkeypatch.setattr(pulse, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=time.sleep))
    return now


def passes(pulse: Pulse, clock: list[float], *seconds: float) -> None:
    """Of computing, with an update after each."""
    for each in seconds:
        pulse.enter(LoopPhase.COMPUTE)
        clock[0] += each
        pulse.enter(LoopPhase.OPTIMIZER)


def test_a_mark_says_where_the_step_loop_sits_and_since_when(file: Path, clock: list[float]) -> None:
    pulse = Pulse(file)
    born = last_mark(file)
    assert born is not None
    assert (born.phase, born.entered) == (LoopPhase.PREPARING, 100.0)
    clock[0] = 107.0
    assert pulse.enter(LoopPhase.DATA) == 7.0
    mark = last_mark(file)
    assert mark is not None
    assert (mark.phase, mark.entered, mark.longest) == (LoopPhase.DATA, 107.0, None)
    assert mark.number > born.number


def test_the_longest_of_the_last_passes_is_known_once_there_are_enough(file: Path, clock: list[float]) -> None:
    pulse = Pulse(file)
    passes(pulse, clock, *[0.5] * (ENOUGH - 1))
    pulse.enter(LoopPhase.COMPUTE)
    assert last_mark(file).longest is None  # type: ignore[union-attr]
    passes(pulse, clock, 2.0, *[0.5] * (PASSES - 1))
    pulse.enter(LoopPhase.COMPUTE)
    assert last_mark(file).longest == 2.0  # type: ignore[union-attr]
    passes(pulse, clock, 0.5)
    pulse.enter(LoopPhase.COMPUTE)
    assert last_mark(file).longest == 0.5  # type: ignore[union-attr]


def test_a_pass_that_was_broken_off_takes_at_least_as_long_as_it_took_until_then(
    file: Path, clock: list[float]
) -> None:
    """Passes that become much slower would else be broken off again and again."""
    pulse = Pulse(file)
    passes(pulse, clock, *[0.5] * ENOUGH)

    def computes(seconds: float) -> None:
        with pulse.within(LoopPhase.COMPUTE):
            clock[0] += seconds
            raise KeyError

    def breaks_off(seconds: float) -> float | None:
        pulse.enter(LoopPhase.IDLE)
        with pytest.raises(KeyError):
            computes(seconds)
        pulse.enter(LoopPhase.COMPUTE)
        longest = last_mark(file).longest  # type: ignore[union-attr]
        pulse.enter(LoopPhase.IDLE, whole=False)
        return longest

    assert breaks_off(0.4) == 0.5
    assert breaks_off(50.0) == 50.0
    assert breaks_off(0.4) == 50.0


def test_what_was_broken_off_before_any_limit_is_learned_teaches_none(file: Path, clock: list[float]) -> None:
    """Groups that break soon after their first batch began do not tell how long one takes."""
    pulse = Pulse(file)
    for seconds in [0.5] * (ENOUGH + 1):
        pulse.enter(LoopPhase.FIRST_BATCH)
        clock[0] += seconds
        pulse.enter(LoopPhase.IDLE, whole=False)
    pulse.enter(LoopPhase.FIRST_BATCH)
    assert last_mark(file).longest is None  # type: ignore[union-attr]


def test_of_loading_nothing_is_learned_for_most_move_nothing_and_one_moves_a_whole_state(
    file: Path, clock: list[float]
) -> None:
    pulse = Pulse(file)
    for _ in range(ENOUGH + 1):
        pulse.enter(LoopPhase.LOADING)
        clock[0] += 0.001
    assert last_mark(file).longest is None  # type: ignore[union-attr]


def test_who_waits_within_a_phase_is_back_in_it_afterwards(file: Path) -> None:
    pulse = Pulse(file)
    pulse.enter(LoopPhase.EVALUATION)
    with pulse.within(LoopPhase.EXCHANGE):
        assert pulse.waits
        assert last_mark(file).phase is LoopPhase.EXCHANGE  # type: ignore[union-attr]
    assert last_mark(file).phase is LoopPhase.EVALUATION  # type: ignore[union-attr]


def test_a_fetch_under_way_has_an_odd_number_of_its_own(file: Path) -> None:
    pulse = Pulse(file)
    seen = []
    for begins in (True, False, True):
        pulse.fetching(begins)
        mark = last_mark(file)
        assert mark is not None
        seen.append(mark.fetch)
    assert seen == [1, 2, 3]


def test_the_pace_is_the_median_of_the_last_steps_for_a_sample(file: Path) -> None:
    pulse = Pulse(file)
    for _ in range(7):
        pulse.stepped(0.8, 8)
    assert last_mark(file).pace is None  # type: ignore[union-attr]
    pulse.stepped(80.0, 8)
    assert last_mark(file).pace == pytest.approx(0.1)  # type: ignore[union-attr]
    for _ in range(8):
        pulse.stepped(0.0, 0)  # a hot spare owns no shard


def test_the_pulse_ticks_while_the_interpreter_runs(file: Path) -> None:
    pulse = Pulse(file)
    pulse.start()
    deadline = time.monotonic() + 20
    while last_mark(file).beat < 2:  # type: ignore[union-attr]
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("noted", [None, b"", b"x" * (SIZE - 1), b"\xff" * SIZE, b"\1" + bytes(SIZE - 1)])
def test_what_is_no_mark_is_none(file: Path, noted: bytes | None) -> None:
    if noted is not None:
        file.write_bytes(noted)
    assert last_mark(file) is None
