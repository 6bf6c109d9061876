"""What lives came to, for people to read.

Owns: the tables and the sentences. Refuses to know: how anything was counted.
"""

from collections import Counter
from typing import Any

from rich.console import Console

from regroup.client.show import plain_table
from regroup.lab.sim.lives.plan import Kind
from regroup.lab.sim.lives.reasons import sentences
from regroup.lab.sim.lives.tally import Tally, spell
from regroup.lab.sim.lives.underway import Activity

MOST = 8  # of the most frequent that are shown
NAMED = 12  # of what was never met


def show(out: Console, tally: Tally) -> None:
    _table(out, "faults, by the phase of a job", tally.met, tally.phases)
    _never(out, "never in that phase", dict.fromkeys(tally.never_in_phase))
    _table(out, "\nfaults, by what was under way", tally.by_activity, list(Activity))
    _never(out, "never during that", tally.never_during)
    together = tally.together.most_common()
    out.print("\nfaults struck during what was under way at once; most often, and in threes:")
    pairs, threes = ([one for one in together if len(one[0]) == size] for size in (2, 3))
    for some, times in (*pairs[:MOST], *threes[:MOST]):
        out.print(f"  {spell(some)}: {times} times")
    _never(out, "never at once", dict.fromkeys(tally.never_together))
    every = len(Kind) * (len(Kind) - 1) // 2
    met = every - len(tally.never_paired)
    out.print(f"\nfaults that struck while another lasted: {met} of {every} pairs; most often:")
    for (one, other), times in tally.pairs.most_common(MOST):
        out.print(f"  {one} during {other}: {times} times")
    missed = tally.never_decided
    known, explained = len(sentences()), sum(why is not None for why in missed.values())
    out.print(f"\nreasons of decisions: {known - len(missed)} of {known} reached, {explained} explained")
    for name, why in missed.items():
        out.print(f"  never: {name}" + (f"; {why}" if why else ""), soft_wrap=True)


def _table(out: Console, title: str, counted: Counter[Any], columns: list[Any]) -> None:
    table = plain_table(title)
    for column in ("fault", *columns):
        table.add_column(str(column), justify="left" if column == "fault" else "right")
    for kind in Kind:
        table.add_row(str(kind), *(str(counted[kind, column]) for column in columns))
    out.print(table)


def _never(out: Console, what: str, found: dict[str, str | None]) -> None:
    """A line for what is explained by the same words, and one for the rest."""
    for why in dict.fromkeys(found.values()):
        names = [name for name, reason in found.items() if reason == why]
        more = f"; and {len(names) - NAMED} more, which --json FILE names" if len(names) > NAMED else ""
        out.print(f"{what}: {'; '.join(names[:NAMED])}{more}" + (f" ({why})" if why else ""), soft_wrap=True)
