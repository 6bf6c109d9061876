"""One planted bug in a process of its own: lives until one goes wrong. Prints what was found as JSON.

Owns: planting before anything else is imported. Refuses to know: whether it matters that nothing was found.
"""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Sequence

from regroup.lab.sim.planted.bugs import BUGS
from regroup.lab.sim.planted.planting import plant


def main() -> None:
    parser = ArgumentParser(prog="planted")
    parser.add_argument("name", choices=[bug.name for bug in BUGS])
    parser.add_argument("--count", type=int, default=500, help="lives at most")
    parser.add_argument("--first", type=int, help="a seed below that, lived before all others")
    given = parser.parse_args()
    others = [seed for seed in range(given.count) if seed != given.first]
    seeds = others if given.first is None or given.first >= given.count else [given.first, *others]
    bug = next(bug for bug in BUGS if bug.name == given.name)
    plant(bug)
    json.dump(_first_broken(seeds, bug.among), sys.stdout)


def _first_broken(seeds: Sequence[int], among: str | None) -> dict[str, object]:
    from regroup.lab.sim.lives.drawing import draw
    from regroup.lab.sim.lives.outcome import live
    from regroup.lab.sim.lives.plan import Kind

    kind = Kind[among] if among else None
    for seed in seeds:
        plan = draw(seed)
        if kind is not None and all(fault.kind is not kind for fault in plan.faults):
            continue
        error = live(plan).error
        if error is not None:
            return {"seed": seed, "error": error}
    return {"seed": None, "error": None}


if __name__ == "__main__":
    main()
