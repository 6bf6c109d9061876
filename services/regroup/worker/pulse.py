"""Where a trainer's step loop sits, in a small file in memory, for its agent, which does not hang with it.

Owns: the file's layout, the durations of each phase's last passes, and the thread that ticks while the interpreter
runs. A mark costs about a microsecond: no lock, and no call of the system but the clock's.
Refuses to know: what is too long (`watching` judges), torch, and what the phases are for.
Does not guarantee: that a reader sees every mark. It sees the newest, or none while one is written.
"""

import mmap
import os
import struct
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from regroup.core.workers import LoopPhase
from regroup.worker.vital import Vital

PASSES = 64  # of each phase, whose durations are known
ENOUGH = 3  # passes of a phase, below which nothing is known of it
TICK = 0.1  # seconds between two beats of the pulse
PHASES = tuple(LoopPhase)
WAITS = frozenset({LoopPhase.IDLE, LoopPhase.FORMING, LoopPhase.EXCHANGE, LoopPhase.LEASE})  # for others, or orders
UNLIKE = frozenset({LoopPhase.LOADING})  # no pass tells of the next: where most move nothing, one moves a whole state

_MARK = struct.Struct("<qqddq")  # number, phase, when entered, longest pass, number again: unequal while it is written
_COUNT = struct.Struct("<q")
_PACE = struct.Struct("<d")  # seconds of its own for a sample; 0: not known
_BEAT_AT, _FETCH_AT, _PACE_AT = _MARK.size, _MARK.size + 8, _MARK.size + 16
SIZE = _MARK.size + 24


@dataclass(frozen=True, slots=True)
class Mark:
    """What an agent reads. Times are seconds of the monotonic clock, which a machine's processes share."""

    number: int  # of this pass, among all of this trainer
    phase: LoopPhase
    entered: float
    longest: float | None = None  # of the last passes of this phase; None: too few are known
    beat: int = 0
    fetch: int = 0  # odd: a fetch of data is under way
    pace: float | None = None


class _Passes:
    """Durations of one phase's last passes, and the longest of them."""

    __slots__ = ("known", "longest")

    def __init__(self) -> None:
        self.known: deque[float] = deque(maxlen=PASSES)
        self.longest = 0.0

    def add(self, seconds: float) -> None:
        known = self.known
        left = known[0] if len(known) == PASSES else -1.0
        known.append(seconds)
        if seconds >= self.longest:
            self.longest = seconds
        elif left == self.longest:
            self.longest = max(known)


class Pulse:
    """The writing end. Marks belong to the step loop's thread, fetches to the loader's."""

    def __init__(self, path: Path) -> None:
        """Preparing. Raises OSError if the file cannot be made."""
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(file, bytes(SIZE))  # a hole would be filled later, where there may be no room: that is a SIGBUS
            self._memory = mmap.mmap(file, SIZE)
        finally:
            os.close(file)
        self._passes = {phase: _Passes() for phase in PHASES}
        self._index = {phase: number for number, phase in enumerate(PHASES)}
        self._phase, self._entered, self._number = LoopPhase.PREPARING, time.monotonic(), 0
        self._fetches = 0
        self._paces: deque[float] = deque(maxlen=PASSES)
        self._steps = 0
        self._write()

    def start(self) -> None:
        """Begin to tick."""
        Vital(target=self._tick, name="pulse").start()

    def enter(self, phase: LoopPhase, whole: bool = True) -> float:
        """The step loop goes on to this. `whole`: what it leaves was done to its end, so that its duration counts.

        What was broken off takes at least as long as it took until then: were that not known, passes that became much
        slower would be broken off again and again. Gives that duration, in seconds.
        """
        now = time.monotonic()
        spent = now - self._entered
        passes = self._passes[self._phase]
        if whole or (len(passes.known) >= ENOUGH and spent > passes.longest):
            passes.add(spent)
        self._phase, self._entered = phase, now
        self._number += 1
        self._write()
        return spent

    @contextmanager
    def within(self, phase: LoopPhase) -> Iterator[None]:
        """Inside it sits there; afterwards where it was before, as a new pass. What it breaks off is no whole one."""
        before = self._phase
        self.enter(phase)
        try:
            yield
        except BaseException:
            self.enter(before, whole=False)
            raise
        self.enter(before)

    @property
    def waits(self) -> bool:
        return self._phase in WAITS

    def fetching(self, begins: bool) -> None:
        """From the loader's thread: a fetch begins, or it is over."""
        if begins != bool(self._fetches % 2):
            self._fetches += 1
            _COUNT.pack_into(self._memory, _FETCH_AT, self._fetches)

    def stepped(self, seconds: float, samples: int) -> None:
        """In a step its own passes took so many seconds, for so many samples."""
        if samples:
            self._paces.append(seconds / samples)
            self._steps += 1
            if self._steps % 8 == 0:
                _PACE.pack_into(self._memory, _PACE_AT, sorted(self._paces)[len(self._paces) // 2])

    def _write(self) -> None:
        passes, number = self._passes[self._phase], self._number
        known = len(passes.known) >= ENOUGH and self._phase not in UNLIKE
        longest = passes.longest if known else -1.0
        _MARK.pack_into(self._memory, 0, number, self._index[self._phase], self._entered, longest, number)

    def _tick(self) -> None:
        beats = 0
        while True:
            time.sleep(TICK)
            beats += 1
            _COUNT.pack_into(self._memory, _BEAT_AT, beats)


def last_mark(path: Path) -> Mark | None:
    """What the file says; None where there is none, or a mark is being written."""
    try:
        noted = path.read_bytes()
    except OSError:
        return None
    if len(noted) != SIZE:
        return None
    number, phase, entered, longest, again = _MARK.unpack_from(noted)
    if number != again or not 0 <= phase < len(PHASES):
        return None
    (beat,), (fetch,) = _COUNT.unpack_from(noted, _BEAT_AT), _COUNT.unpack_from(noted, _FETCH_AT)
    (pace,) = _PACE.unpack_from(noted, _PACE_AT)
    return Mark(number, PHASES[phase], entered, longest if longest >= 0 else None, beat, fetch, pace or None)
