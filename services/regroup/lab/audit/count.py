"""Holding the records against the claim: every line is taken in once, as it comes; only counts are kept.

Owns: which lines count, what is missing, what contradicts the history, and the verdict.
Refuses to know: where the lines come from.
"""

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from regroup.lab.audit.claim import Claim, surviving
from regroup.lab.audit.epochs import EpochCount, count_epochs
from regroup.lab.audit.lines import Applied, Read, lines, parse, worker_of
from regroup.lab.audit.wording import grouped, listed, plural, steps_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What was found. `ok`: every committed step is recorded whole, and each sample once in each epoch."""

    ok: bool
    steps: int
    generations: int  # that contributed a step
    epochs: int  # that are complete
    samples: int  # read in the committed steps
    lost: int  # samples of the committed steps that nobody read
    doubled: int  # reads of a sample beyond its first in an epoch
    missing_records: int  # shards of committed steps of which no record tells
    void_steps: int  # applied by somebody, and not part of the final state
    summary: str
    faults: tuple[str, ...]


def audit(claim: Claim, pieces: Iterable[tuple[str, str]]) -> Audit:
    """Count. `pieces` are (file, text): pieces of a file come in order, and one may end inside a line."""
    count = _Count(claim)
    for file, text in lines(pieces):
        line = parse(text)
        if isinstance(line, Read):
            count.read(file, line)
        elif isinstance(line, Applied):
            count.applied(file, line)
        else:
            count.unreadable[file] += 1
    return count.result()


class _Count:
    """The tally of one audit. Memory: 8 bytes for each sample read, 4 for each shard of a committed step."""

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self._bases = {link.generation: link.base_step for link in claim.history}
        self._spans, self._faults = surviving(claim)
        self._files: dict[str, int] = {}
        self._readers = array("I", bytes(4 * claim.steps * claim.shards))  # 1 + number of the file; 0: nobody
        self._epochs: defaultdict[int, array[int]] = defaultdict(lambda: array("Q"))
        self._applied: defaultdict[int, set[int]] = defaultdict(set)
        self._next: dict[tuple[str, int], int] = {}  # (file, generation) -> the step that it must apply next
        self._spoke: defaultdict[int, set[str]] = defaultdict(set)
        self._twice: list[str] = []
        self._odd: list[str] = []
        self._silent: set[str] = set()  # who took part in what nobody recorded, and left no record of it
        self.unreadable: defaultdict[str, int] = defaultdict(int)

    def read(self, file: str, line: Read) -> None:
        if not self._belongs(file, line.generation, line.step, "read"):
            return
        if line.step not in self._spans.get(line.generation, ()):
            return  # of a step that was aborted, is void, or is under way
        shards = self._claim.shards
        if line.shard >= shards:
            self._odd.append(f"{file} read shard {line.shard} of step {line.step}, where there are {shards} shards")
            return
        slot = line.step * shards + line.shard
        if self._readers[slot]:
            first = list(self._files)[self._readers[slot] - 1]
            where = f"step {line.step}, generation {line.generation}"
            self._twice.append(f"shard {line.shard} of {where} was read by {first} and again by {file}")
        self._readers[slot] = self._files.setdefault(file, len(self._files)) + 1
        self._epochs[line.epoch].extend(line.indices)

    def applied(self, file: str, line: Applied) -> None:
        if not self._belongs(file, line.generation, line.step, "applied"):
            return
        expected = self._next.get((file, line.generation), self._bases[line.generation])
        if line.step != expected:
            self._odd.append(f"{file} applied step {line.step} of generation {line.generation}, not step {expected}")
        self._next[file, line.generation] = line.step + 1
        self._applied[line.generation].add(line.step)

    def result(self) -> Audit:
        claim = self._claim
        missing, missing_texts = self._missing()
        samples = count_epochs(
            self._epochs,
            steps=claim.steps,
            begins=claim.begins,
            global_batch=claim.global_batch,
            dataset=claim.dataset,
        )
        faults = (
            *self._faults,
            *listed(missing_texts),
            *listed(self._twice),
            *listed(self._odd),
            *self._unapplied(),
            *listed(samples.faults),
            *listed([f"{file} has {plural(n, 'line')} that cannot be read" for file, n in self.unreadable.items()]),
        )
        generations, void = sum(len(span) > 0 for span in self._spans.values()), self._void()
        return Audit(
            ok=not faults,
            steps=claim.steps - claim.begins,
            generations=generations,
            epochs=samples.complete,
            samples=samples.samples,
            lost=samples.lost,
            doubled=samples.doubled,
            missing_records=missing,
            void_steps=void,
            summary=_summary(claim, generations, samples, void, exact=not faults, silent=self._silent),
            faults=faults,
        )

    def _belongs(self, file: str, generation: int, step: int, did: str) -> bool:
        """Whether a line is of a generation that can be judged; notes what contradicts the history."""
        base = self._bases.get(generation)
        if base is None:
            if self._claim.final or generation <= max(self._bases, default=0):
                self._odd.append(f"{file} {did} step {step} of generation {generation}, unknown to the history")
            return False  # else it was formed after the claim was made
        self._spoke[generation].add(file)
        if step < base:
            self._odd.append(f"{file} {did} step {step} of generation {generation}, which began at step {base}")
        return step >= base

    def _missing(self) -> tuple[int, list[str]]:
        """How many shards of committed steps no record has, and which: neighbours that lack the same are told once."""
        shards, count, runs = self._claim.shards, 0, list[tuple[int, range, list[int]]]()
        for generation, span in sorted(self._spans.items()):
            for step in span:
                readers = self._readers[step * shards : (step + 1) * shards]
                if 0 not in readers:
                    continue
                lacking = [shard for shard, reader in enumerate(readers) if not reader]
                count += len(lacking)
                if runs and (runs[-1][0], runs[-1][1].stop, runs[-1][2]) == (generation, step, lacking):
                    runs[-1] = (generation, range(runs[-1][1].start, step + 1), lacking)
                else:
                    runs.append((generation, range(step, step + 1), lacking))
        return count, [self._missing_text(*run) for run in runs]

    def _missing_text(self, generation: int, steps: range, lacking: list[int]) -> str:
        every = len(lacking) == self._claim.shards
        what = "any shard" if every else f"shard{'s' * (len(lacking) > 1)} {', '.join(map(str, lacking))}"
        spoke = set(map(worker_of, self._spoke[generation]))
        silent = sorted(self._claim.workers.get(generation, frozenset()) - spoke)
        self._silent.update(silent)
        who = f"; {', '.join(silent)} took part, but no record of theirs is here" if silent else ""
        return f"{steps_text(steps)} of generation {generation}: nobody wrote to have read {what}{who}"

    def _unapplied(self) -> list[str]:
        """Steps of the last generation that nobody wrote to have applied. For the others, the next one's base tells."""
        tip = self._claim.tip or 0
        bare = [step for step in self._spans.get(tip, ()) if step not in self._applied[tip]]
        if not bare:
            return []
        which = f"step {bare[0]}" + (f" and {plural(len(bare) - 1, 'more step')}" if len(bare) > 1 else "")
        return [f"{which} of generation {tip}: said to be committed, but nobody wrote to have applied it"]

    def _void(self) -> int:
        """Applied steps that are not part of the final state; beyond a tip that is not final they are under way."""
        judged = {generation for generation in self._applied if self._claim.final or generation != self._claim.tip}
        return sum(step not in self._spans.get(g, ()) for g in judged for step in self._applied[g])


def _summary(
    claim: Claim, generations: int, samples: EpochCount, void: int, exact: bool, silent: Collection[str]
) -> str:
    steps = claim.steps - claim.begins
    where = f" from step {claim.begins} on" if claim.begins else ""
    text = f"{plural(samples.samples, 'sample')} in {plural(steps, 'step')}{where}"
    text += f" over {plural(generations, 'generation')}"
    if not exact:
        text += f": NOT EXACT, {grouped(samples.lost)} lost, {grouped(samples.doubled)} doubled"
        text += f", without the records of {', '.join(sorted(silent))}" if silent else ""
    elif steps == 0:
        text = "no step was committed, and nothing contradicts that"
    elif samples.complete > 1:
        text += f", each exactly once in each of {plural(samples.complete, 'complete epoch')}"
    else:
        text += ", each exactly once"
    return text + (f"; {plural(void, 'void step')} discarded" if void else "")
