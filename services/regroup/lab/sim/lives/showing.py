"""What lives came to, for people to read, on lines that a terminal of usual width shows whole.

Owns: the tables and the sentences. Refuses to know: how anything was counted.
"""

from collections.abc import Mapping, Sequence
from textwrap import fill

from rich.console import Console

from regroup.core.jobs import JobPhase
from regroup.lab.sim.lives.impossible import left_by
from regroup.lab.sim.lives.plan import LASTING, Kind
from regroup.lab.sim.lives.reasons import sentences
from regroup.lab.sim.lives.tally import Meetings, Reach, Tally, spell
from regroup.lab.sim.lives.underway import GOES_ON, LEFT

WIDTH = 100  # columns at most, also where lines may be as long as they like
MOST = 8  # of the most frequent that are shown
SORT = 31  # columns, for the name of a sort of what there is to be met
NAMED, EXPLAINED = 12, 4  # of what was never met; of what is explained by the same words
NEVER, IMPOSSIBLE = "·", "-"


def summarize(out: Console, tally: Tally) -> None:
    """How much of all that could be met was, in about ten lines; `show` tells what it is."""
    tell_reach(out, tally.reach)
    for name, why in tally.contradictions.items():
        _contradiction(out, name, why)
    _say(out, "what was not met, and why some of it cannot be: --coverage, or --json FILE")


def tell_reach(out: Console, reach: Mapping[str, Reach]) -> None:
    """A line for each sort of what there is to be met."""
    out.print(
        f"{'':<{SORT}}{'there are':>11}{'met':>7}{'cannot be':>11}{'not met yet':>13}", style="dim", soft_wrap=True
    )
    for what, one in reach.items():
        never, unmet = len(one.never), len(one.unmet)
        counts = f"{one.every:>11,}{one.every - never:>7,}{never - unmet:>11,}{unmet:>13,}"
        out.print(f"{what:<{SORT}}{counts}", soft_wrap=True)


def _contradiction(out: Console, name: str, why: str) -> None:
    _say(out, f"CONTRADICTION: {name} was met, and yet it is said that {why}")


def show(out: Console, tally: Tally) -> None:
    """All that was met, and what never was: tables, and a list."""
    in_phases, by_activity, by_left = tally.in_phases, tally.by_activity, tally.by_left
    at_once, paired = tally.at_once, tally.paired
    _table(out, f"faults, by the phase of a job  ({NEVER} never, {IMPOSSIBLE} cannot be)", in_phases, list(JobPhase))
    _never(out, "never in that phase", in_phases.never, len(in_phases.every))
    _table(out, "\nfaults, by what was under way", by_activity, GOES_ON)
    _never(out, "never during that", by_activity.never, len(by_activity.every))
    _table(out, "\nfaults, by what others had left", by_left, LEFT)
    _never(out, "never beside that", by_left.never, len(by_left.every))
    together = tally.together.most_common()
    _say(out, "\nfaults struck during what was under way at once; most often, and in threes:")
    pairs, threes = ([one for one in together if len(one[0]) == size] for size in (2, 3))
    for some, times in (*pairs[:MOST], *threes[:MOST]):
        _say(out, f"  {spell(some)}: {times:,} times")
    _never(out, "never at once", at_once.never, len(at_once.every))
    _say(out, "\nfaults that struck while another was switched on; most often:")
    for one, times in tally.pairs.most_common(MOST):
        _say(out, f"  {spell(one)}: {times:,} times")
    _never(out, "never in a pair", paired.never, len(paired.every))
    _say(out, "of two that are done at once no pair is counted; what they leave is told above, as what was under way:")
    for activities, kinds in left_by(kind for kind in Kind if kind not in LASTING).items():
        _say(out, f"  {'; '.join(kinds)}: {', '.join(activities) or 'nothing lasts'}")
    missed = tally.never_decided
    known, explained = len(sentences()), sum(why is not None for why in missed.values())
    _say(out, f"\nreasons of decisions: {known - len(missed)} of {known} reached, {explained} explained")
    for name, why in missed.items():
        _say(out, f"  never: {name}" + (f"  ({why})" if why else ""))
    for name, why in tally.contradictions.items():
        _contradiction(out, name, why)


def _wide(out: Console) -> int:
    return min(out.width, WIDTH)


def _say(out: Console, text: str) -> None:
    """One entry; what does not fit goes on below it, further in."""
    lead = len(text) - len(text.lstrip("\n"))
    body = text[lead:]
    indent = " " * (len(body) - len(body.lstrip()) + 2)
    told = fill(body, _wide(out), subsequent_indent=indent, break_on_hyphens=False)
    out.print("\n" * lead + told, soft_wrap=True)


def _table(out: Console, title: str, meetings: Meetings, columns: Sequence[str]) -> None:
    """Each kind by each column. Headings are wider than numbers, so they stand at different heights."""
    out.print(title, soft_wrap=True)
    label, width = _widths(_wide(out), [short(times) for times in meetings.met.values()], len(columns))
    heights = -(-(max(map(len, columns)) + 1) // width)
    for height in range(heights):
        mine = [name if place % heights == height else "" for place, name in enumerate(columns)]
        out.print(_line("" if height < heights - 1 else "fault", label, width, mine), soft_wrap=True, style="dim")
    for kind in Kind:
        cells = [_cell(meetings, (kind, column)) for column in columns]
        out.print(_line(kind, label, width, cells), soft_wrap=True)


def _cell(meetings: Meetings, which: tuple[Kind, str]) -> str:
    times = meetings.met.get(which, 0)
    return short(times) if times else IMPOSSIBLE if meetings.impossible(which) else NEVER


def _widths(wide: int, numbers: Sequence[str], columns: int) -> tuple[int, int]:
    """Of the labels, and of each column with the blank before it. Labels are cut before numbers are."""
    longest, least = max(map(len, Kind)), max(map(len, numbers), default=1) + 1
    width = max(least, (wide - longest) // columns)
    return min(longest, max(wide - width * columns, 12)), width


def _line(label: str, room: int, width: int, cells: Sequence[str]) -> str:
    """Cells end where their columns do; a longer one reaches into empty ones before it."""
    line = label if len(label) <= room else f"{label[: room - 1]}…"
    for place, cell in enumerate(cells):
        end = room + (place + 1) * width
        line = f"{line:<{end - len(cell)}}{cell}" if cell else line
    return line


def short(number: int) -> str:
    """In four characters at most."""
    if number < 1000:
        return str(number)
    return f"{number / 1e3:.0f}k" if number < 999_500 else f"{number / 1e6:.0f}M"


def _never(out: Console, what: str, found: dict[str, str | None], every: int) -> None:
    """How much never met; then an entry for what nobody explains, and one for what is explained by the same words."""
    _say(out, f"{what}: {len(found)} of {every}")
    for why in sorted(set(found.values()), key=lambda why: why or ""):
        names, most = [name for name, reason in found.items() if reason == why], EXPLAINED if why else NAMED
        more = f"; and {len(names) - most} more, which --json FILE names" if len(names) > most else ""
        _say(out, f"  {len(names)}, {why or 'not explained'}: {'; '.join(names[:most])}{more}")
