"""What every process of a cluster does before it begins: answer --help and --version, and look for what it needs.

Owns: which packages each extra of the distribution brings that cannot be done without.
Refuses to know: settings (`environment`), and what the process is for.
"""

import argparse
import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec

EXTRAS = {
    "coordinator": ("fastapi", "fastapi_offline", "redis", "uvicorn"),
    "worker": ("fsspec", "numpy", "safetensors", "torch"),
}


def not_installed(extras: Iterable[str]) -> str | None:
    """One line saying which of these extras are missing and how to get them; None: nothing is."""
    missing = [extra for extra in extras if any(find_spec(name) is None for name in EXTRAS[extra])]
    if not missing:
        return None
    return f"this needs more than the base install: pip install 'regroup[{','.join(missing)}]'"


def begin(program: str, what: str, *extras: str, flags: Mapping[str, str] | None = None) -> dict[str, bool]:
    """Read the command line: the settings that were given as one of `flags` (name -> its help).

    Ends the process unless it is to go on.
    """
    settings = "Its settings are REGROUP_* environment variables; docs/cli.md lists them."
    parser = argparse.ArgumentParser(prog=program, description=what, epilog=settings)
    parser.add_argument("--version", action="store_true", help="show which release this is, and exit")
    for name, words in (flags or {}).items():
        parser.add_argument(f"--{name}", action="store_const", const=True, default=argparse.SUPPRESS, help=words)
    given = vars(parser.parse_args())
    if given.pop("version"):
        from importlib.metadata import version  # takes as long as all the rest of a health check

        print(f"{program} {version('regroup')}")
        sys.exit()
    if trouble := not_installed(extras):
        sys.exit(f"{program}: {trouble}")
    return given
