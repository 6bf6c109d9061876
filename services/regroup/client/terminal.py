"""What every command shares: where the coordinator is, how answers are written, how a job's name is read.

Owns: the global options, standard output (tables for people, JSON for programs) and exit codes.
Refuses to know: the commands.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from pydantic_core import to_jsonable_python
from rich.console import Console, RenderableType
from typer.core import TyperCommand

from regroup.client.errors import ApiError, BadAddress, Invalid, NotFound, RegroupError, Unavailable, Unreachable
from regroup.client.printable import PlainConsole, one_line
from regroup.client.sdk import Client

OK, FAILED, USAGE, NOT_FOUND, UNREACHABLE, INTERRUPTED = 0, 1, 2, 3, 4, 130

AsJson = Annotated[bool, typer.Option("--json", help="Write JSON: one document, or one a line for streams.")]


@dataclass(frozen=True, slots=True)
class Options:
    """The options before the command."""

    url: str | None = None
    token_file: Path | None = None


class Command(TyperCommand):
    """Whoever gives one of the options before the command after it is told where it goes."""

    def parse_args(self, *given: Any) -> list[str]:
        try:
            return super().parse_args(*given)
        except Exception as error:  # typer makes the class public nowhere
            wanted = getattr(error, "option_name", "").partition("=")[0]
            if wanted in {f"--{each.name.replace('_', '-')}" for each in fields(Options)}:
                give_up(f"{wanted} goes before the command: regroup {wanted} ... {self.name}", USAGE)
            raise


@contextmanager
def connected(context: typer.Context) -> Iterator[Client]:
    """A client by the global options."""
    options = context.find_object(Options) or Options()
    with Client(options.url, token_file=options.token_file, on_away=_say_away) as client:
        yield client


def _say_away(away: bool) -> None:
    complain("the coordinator does not answer; trying again ..." if away else "the coordinator answers again")


def console() -> Console:
    """Standard output: without colour, and as wide as it likes, where it is no terminal."""
    plain = PlainConsole(soft_wrap=False)
    return plain if plain.is_terminal else PlainConsole(color_system=None, width=10_000)


def write(what: RenderableType) -> None:
    """One answer. In a pipe, lines have no blanks at their ends."""
    out = console()
    if out.is_terminal:
        out.print(what, crop=False)  # what is one line to be copied goes on below, as the terminal breaks it
        return
    with out.capture() as captured:
        out.print(what, soft_wrap=isinstance(what, str))
    print("\n".join(line.rstrip() for line in captured.get().splitlines()), flush=True)


def write_json(value: Any) -> None:
    """Views as one document: indented for a terminal, else on one line."""
    print(json.dumps(to_jsonable_python(value), indent=2 if sys.stdout.isatty() else None), flush=True)


def write_json_line(value: Any) -> None:
    """Views as one line of a stream."""
    print(json.dumps(to_jsonable_python(value)), flush=True)


def complain(message: str, *fields: str) -> None:
    """One line on standard error, and one for each field that is wrong."""
    print(f"regroup: {one_line(message)}", *(f"  {one_line(line)}" for line in fields), sep="\n", file=sys.stderr)


def give_up(message: str, code: int) -> NoReturn:
    complain(message)
    raise typer.Exit(code)


def report(error: RegroupError) -> int:
    """Say what went wrong, and with which exit code to end."""
    match error:
        case ApiError(errors=errors) if errors:
            complain(error.problem.title.lower(), *(f"{each.field}: {each.message}" for each in errors))
        case _:
            complain(str(error))
    match error:
        case Invalid() | BadAddress():
            return USAGE
        case NotFound():
            return NOT_FOUND
        case Unreachable() | Unavailable():
            return UNREACHABLE
    return FAILED


def job_id(client: Client, given: str) -> str:
    """The id that `given` is or begins, with or without its `j-`. Ends the command if there is none, or several."""
    if not given.strip():
        give_up("an empty id is that of no job; `regroup jobs` lists them", NOT_FOUND)
    if given.startswith("j-"):
        with suppress(NotFound):
            return client.job(given).id
    ids = [job.id for job in client.jobs()]
    meant = [each for each in ids if each.startswith(given) or each.startswith(f"j-{given}")]
    if len(meant) > 1:
        give_up(f"{given} could be {', '.join(meant)}; give more of it", USAGE)
    if not meant:
        give_up(f"there is no job {given}", NOT_FOUND)
    return meant[0]
