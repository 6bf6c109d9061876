"""The file that a command of the lab writes its figures to: opened before the work, which takes minutes or hours.

Owns: the option `--json FILE`, and that a file which cannot be written ends the command at once.
Refuses to know: what is written. Does not guarantee: that an earlier file survives a command that ends in between.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from regroup.client.terminal import FAILED, give_up

JsonFile = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write all figures to this file.")]


@contextmanager
def result_file(path: Path | None) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """What writes the figures: once, or not at all. Without a path it does nothing."""
    if path is None:
        yield lambda figures: None
        return
    try:
        file = path.open("w", encoding="utf-8")
    except OSError as error:
        give_up(f"cannot write {path}: {error.strerror}", FAILED)
    with file:
        yield lambda figures: print(json.dumps(figures, indent=2), file=file)
