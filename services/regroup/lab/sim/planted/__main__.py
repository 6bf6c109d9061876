"""One planted bug in a process of its own: lives until one goes wrong, or a search. Prints what was found as JSON.

Owns: planting before anything else is imported. Refuses to know: whether it matters that nothing was found.
"""

import json
import sys
from argparse import ArgumentParser

from regroup.lab.sim.planted.bugs import BUGS, plant


def main() -> None:
    parser = ArgumentParser(prog="planted")
    parser.add_argument("name", choices=[bug.name for bug in BUGS])
    parser.add_argument("--count", type=int, default=500, help="lives at most")
    parser.add_argument("--search", help="search this small cluster instead")
    given = parser.parse_args()
    plant(next(bug for bug in BUGS if bug.name == given.name))
    json.dump(_search(given.search) if given.search else _live(given.count), sys.stdout)


def _live(count: int) -> dict[str, object]:
    from regroup.lab.sim.lives.outcome import live
    from regroup.lab.sim.lives.themes import draw

    for seed in range(count):
        error = live(draw(seed)).error
        if error is not None:
            return {"seed": seed, "error": error}
    return {"seed": None, "error": None}


def _search(name: str) -> dict[str, object]:
    from regroup.lab.sim.search.bounds import SMALL
    from regroup.lab.sim.search.breadth import search

    found = search(SMALL[name])
    return {"error": found.error, "path": found.path, "stuck": found.stuck, "in_vain": found.in_vain}


if __name__ == "__main__":
    main()
