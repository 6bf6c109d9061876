"""The file that a command of the lab writes what it found to: opened before the work, which takes minutes or hours.

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
def result_file(path: Path | None) -> Iterator[Callable[[Mapping[str, Any]], object]]:
    """What writes the figures: once, or not at all. Without a path it does nothing."""
    with text_file(path) as write:
        yield lambda figures: write(json.dumps(figures, indent=2) + "\n")


@contextmanager
def text_file(path: Path | None) -> Iterator[Callable[[str], object]]:
    """What writes a text, as `result_file` does figures."""
    if path is None:
        yield lambda text: None
        return
    try:
        file = path.open("w", encoding="utf-8")
    except OSError as error:
        give_up(f"cannot write {path}: {error.strerror}", FAILED)
    with file:
        yield file.write
