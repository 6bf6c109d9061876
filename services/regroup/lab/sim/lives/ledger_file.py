"""The file of a ledger: JSON, small enough to be kept with the code.

Owns: its form, what is refused as no record, and that it is written in one piece, by one process at a time.
Refuses to know: what a ledger says (`ledger`), and what is added to it (`record`).

Files that were written before it was told which simulator lived a range, what there was to be met, and what cannot be,
are read as they are: nobody knows the first then, the second is taken to be what it is now, and what cannot be stands
among what was not met, until something is added.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Any

from regroup.lab.sim.lives.ledger import Broken, Ledger, Span, Unmet


def read(path: Path) -> Ledger | None:
    """What the file says, of whatever code; None: there is no such file. Raises ValueError if it is no record."""
    try:
        return _parsed(path.read_bytes())
    except FileNotFoundError:
        return None


def write(path: Path, ledger: Ledger) -> None:
    """In one piece, or not at all. Raises OSError."""
    spans = ({"from": one.first, "below": one.end, **_lived_by(one)} for one in ledger.lived)
    told = {
        "code": ledger.code,
        "lives": ledger.lives,
        "ranges": ledger.ranges,
        "broken": ledger.broken,
        "plans": {seed: asdict(one) for seed, one in ledger.plans.items()},
        "lived": list(spans),
        "there_are": {sort: one.there_are for sort, one in ledger.never.items()},
        "never": {sort: one.names for sort, one in ledger.never.items()},
        "cannot": {sort: one.cannot for sort, one in ledger.never.items() if one.cannot},
    }
    draft = path.with_name(f"{path.name}.draft")
    try:
        draft.write_text(json.dumps(told, indent=1) + "\n")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """One process at a time: of two that read a record, add to it and write it, one would lose what it added."""
    folder = os.open(path.absolute().parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        flock(folder, LOCK_EX)
        yield
    finally:
        os.close(folder)


def _lived_by(span: Span) -> dict[str, str | None]:
    return {"simulator": span.simulator, "commit": span.commit}


def _parsed(text: bytes) -> Ledger:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    if not isinstance(told, dict) or not isinstance(told.get("code"), str):
        raise ValueError("it names no code")
    ranges, broken = told.get("ranges"), told.get("broken")
    if not isinstance(ranges, list) or not all(isinstance(each, list) and len(each) == 2 for each in ranges):
        raise ValueError("it has no ranges of seeds")
    bounds = [bound for each in ranges for bound in each]
    if not _ascend(bounds) or len(set(bounds)) < len(bounds):
        raise ValueError("its ranges of seeds are none: each begins above the end of the one before")
    if not isinstance(broken, list) or not all(type(seed) is int and _within(ranges, seed) for seed in broken):
        raise ValueError("its broken seeds are not of its ranges")
    return Ledger(
        told["code"],
        tuple((first, end) for first, end in ranges),
        tuple(broken),
        _plans(told.get("plans", {}), broken),
        _spans(told.get("lived", [])),
        _never(told.get("never"), told.get("there_are", {}), told.get("cannot", {})),
    )


def _plans(told: Any, broken: list[int]) -> dict[int, Broken]:
    try:
        plans = {int(seed): Broken(**one) for seed, one in told.items()}
    except (AttributeError, TypeError, ValueError):
        raise ValueError("its plans are none") from None
    if not plans.keys() <= {*broken}:
        raise ValueError("its plans are not of its broken seeds")
    return plans


def _spans(told: Any) -> tuple[Span, ...]:
    try:
        spans = tuple(Span(one["from"], one["below"], one["simulator"], one["commit"]) for one in told)
    except (KeyError, TypeError):
        raise ValueError("it does not say what lived its ranges") from None
    if not _ascend([bound for one in spans for bound in (one.first, one.end)]):
        raise ValueError("it does not say what lived its ranges: each begins where the one before ends, or above")
    return spans


def _never(names: Any, there_are: Any, cannot: Any) -> dict[str, Unmet]:
    groups = cannot.values() if isinstance(cannot, dict) else [None]
    told = all(isinstance(each, dict) and all(map(_is_names, each.values())) for each in groups)
    counted = isinstance(there_are, dict) and all(type(each) is int for each in there_are.values())
    if not (told and counted and isinstance(names, dict) and all(map(_is_names, names.values()))):
        raise ValueError("it does not say what was never met")
    return {
        sort: Unmet(there_are.get(sort, 0), tuple(some), _tuples(cannot.get(sort, {}))) for sort, some in names.items()
    }


def _tuples(groups: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    return {why: tuple(names) for why, names in groups.items()}


def _is_names(told: object) -> bool:
    return isinstance(told, list) and all(isinstance(name, str) for name in told)


def _ascend(bounds: list[Any]) -> bool:
    return all(type(bound) is int and bound >= 0 for bound in bounds) and bounds == sorted(bounds)


def _within(ranges: Iterable[Iterable[int]], seed: int) -> bool:
    return any(first <= seed < end for first, end in ranges)
