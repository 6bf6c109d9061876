"""One planted bug in a process of its own: lives until one goes wrong, or one of them told as a story.

Owns: planting before anything else is imported. What was found is printed as JSON, a story as one.
Refuses to know: whether it matters that nothing was found.
"""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import chain, count, islice

from regroup.lab.sim.planted.bugs import BUGS
from regroup.lab.sim.planted.planting import plant


def main() -> None:
    parser = ArgumentParser(prog="planted")
    parser.add_argument("name", help="as `regroup sim --plants` shows it")
    parser.add_argument(
        "--count", type=int, choices=range(1, 501), metavar="1 to 500", default=500, help="lives at most"
    )
    parser.add_argument("--first", type=int, help="a seed that is lived before all others")
    parser.add_argument("--seed", type=int, help="tell this life; its facts are JSON on standard error")
    given = parser.parse_args()
    seeds = count() if given.first is None else chain((given.first,), count())
    bugs = {name: bug for bug in BUGS for name in (bug.name, str(bug))}
    if given.name not in bugs:
        near = get_close_matches(given.name, bugs, 1)
        parser.error(f"no bug is called {given.name!r}" + (f": did you mean {near[0]!r}?" if near else ""))
    bug = bugs[given.name]
    plant(bug)
    if given.seed is not None:
        sys.exit(_tell(given.seed))
    print(json.dumps(_first_broken(seeds, given.count, bug.among)))


def _tell(seed: int) -> int:
    from regroup.client.terminal import FAILED, OK, console
    from regroup.lab.bench.machine import this_machine
    from regroup.lab.sim.lives.telling import tell_life

    sound, facts = tell_life(console(), seed, this_machine())
    print(json.dumps(facts), file=sys.stderr)
    return OK if sound else FAILED


def _first_broken(seeds: Iterable[int], most: int, among: str | None) -> dict[str, object]:
    """`most` lives are lived."""
    from regroup.lab.sim.lives.outcome import live
    from regroup.lab.sim.planted.among import plans_with

    lived = 0
    for plan in islice(plans_with(among, seeds), most):
        error, lived = live(plan).error, lived + 1
        if error is not None:
            return {"seed": plan.seed, "lives": lived, "error": error}
    return {"seed": None, "lives": lived, "error": None}


if __name__ == "__main__":
    main()
