"""The file that a command of the lab writes what it found to: opened before the work, which takes minutes or hours.

Owns: the option `--json FILE`, that a file which cannot be written ends the command at once, and that an earlier one is
replaced only by what was found.
Refuses to know: what is written.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from regroup.client.terminal import FAILED, USAGE, give_up

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
    if str(path) == "-":
        give_up("- is no name of a file: figures go to a file, beside what is printed", USAGE)
    place = path.resolve() if path.is_file() else path
    draft = place if path.exists() and not path.is_file() else place.with_name(f"{place.name}.draft")  # /dev/null stays
    with _told(path):
        file = draft.open("w", encoding="utf-8")

    def write(text: str) -> None:
        with _told(path), file:
            file.write(text)
            file.flush()
            if draft != place:
                draft.replace(place)

    try:
        with file:
            yield write
    finally:
        if draft != place:
            draft.unlink(missing_ok=True)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        give_up(f"cannot write {path}: {error.strerror}", FAILED)
