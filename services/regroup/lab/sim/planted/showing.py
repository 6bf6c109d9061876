"""Which planted bugs lives found, and how soon: for a terminal, and as facts.

Owns: the lines and their sum. Refuses to know: how a bug is planted and looked for (`finding`).
"""

import shlex
from collections.abc import Sequence
from contextlib import closing
from statistics import median
from typing import Any

from rich.console import Console

from regroup.client.terminal import FAILED, INTERRUPTED, OK, complain
from regroup.lab.audit.wording import plural
from regroup.lab.sim.planted.finding import Found, find_planted
from regroup.lab.sim.planted.planting import Bug


def look_for(out: Console, bugs: Sequence[Bug], count: int, processes: int) -> tuple[int, dict[str, Any]]:
    """`count` lives for each. The exit code, and the facts."""
    found: list[Found] = []
    code, whole = OK, True
    try:
        with closing(find_planted(bugs, count, processes)) as results:
            for number, one in enumerate(results, start=1):
                found.append(one)
                _tell(out, f"{number}/{len(bugs)}", one)
    except KeyboardInterrupt:
        code, whole = INTERRUPTED, False
        complain("interrupted: the bugs above had been looked for by then")
    except RuntimeError as error:
        code, whole = FAILED, False
        complain(f"{error}; those after it are not told")
    caught = [one for one in found if one.seed is not None]
    lives = [one.lives for one in caught]
    middle = median(lives) if lives else 0
    looked = plural(len(found), "planted bug") + ("" if whole else f" that were looked for, of {len(bugs)},")
    out.print(f"\n{len(lives)} of {looked} found; lives until then: median {middle:.0f}")
    if caught:
        told = f"regroup sim --bug {shlex.quote(caught[0].bug.name)} --seed {caught[0].seed}"
        out.print(f"{told} tells the life that found the first of them", soft_wrap=True)
    facts = {"planted": {one.bug.name: one.seed for one in found}, "median": middle}
    return code or (OK if len(lives) == len(bugs) else FAILED), facts


def _tell(out: Console, number: str, one: Found) -> None:
    where = f"life {one.lives}, seed {one.seed}" if one.seed is not None else f"NOT FOUND in {one.lives} lives"
    told = f"    {where}: {one.error}" if one.error else f"    {where}"
    out.print(f"{number}  {one.bug}", soft_wrap=True)
    out.print(told if len(told) <= out.width else f"{told[: out.width - 1]}…", soft_wrap=True, style="dim")
