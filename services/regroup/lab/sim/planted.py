"""One planted bug in a process of its own: lives until a life goes wrong. Prints the seed and the error as JSON.

Owns: planting before anything else is imported. Refuses to know: whether it matters that nothing was found.
"""

import json
import sys
from argparse import ArgumentParser

from regroup.lab.sim.bugs import BUGS, plant


def main() -> None:
    parser = ArgumentParser(prog="planted")
    parser.add_argument("name", choices=[bug.name for bug in BUGS])
    parser.add_argument("--count", type=int, default=500)
    given = parser.parse_args()
    plant(next(bug for bug in BUGS if bug.name == given.name))

    from regroup.lab.sim.outcome import live
    from regroup.lab.sim.themes import draw

    for seed in range(given.count):
        error = live(draw(seed)).error
        if error is not None:
            json.dump({"seed": seed, "error": error}, sys.stdout)
            return
    json.dump({"seed": None, "error": None}, sys.stdout)


if __name__ == "__main__":
    main()
