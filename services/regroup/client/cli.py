"""`regroup`: the command line, assembled.

Owns: the global options, the list of commands, and turning errors into one line and an exit code.
Refuses to know: what the commands do. Further ones come from the entry-point group `regroup.commands`
(name -> a typer.Typer or a function); one that cannot be imported says so when it is called, and harms no other.
"""

import sys
from importlib.metadata import EntryPoint, entry_points, version
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from regroup.client import commands, secrets, submit, terminal
from regroup.client.errors import RegroupError

GROUP = "regroup.commands"

_EXIT_CODES = """\b
Exit codes:
  0    done
  1    the job failed, or was stopped while `submit` waited for its end; the
       coordinator refused; the audit is not exact; the answer could not be
       written
  2    wrong usage or bad input
  3    no such job or worker
  4    no coordinator was reached, or it cannot serve now
  130  interrupted (Ctrl-C)"""


def _further() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _load(entry: EntryPoint) -> Any:
    """The command behind an entry point, or one that says why there is none."""
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    try:
        found = entry.load()
    except (ImportError, AttributeError) as error:
        why = str(error)

        def unusable() -> None:
            terminal.give_up(f"`regroup {entry.name}` cannot run here: {why}", terminal.FAILED)

        unusable.__doc__ = f"Cannot run here: {why}."
        settings = {"allow_extra_args": True, "ignore_unknown_options": True}
        app.command(entry.name, context_settings=settings)(unusable)
    else:
        if isinstance(found, typer.Typer):
            app = found
        else:
            app.command(entry.name)(found)
    command = get_command(app)
    command.name = entry.name
    return command


class Commands(TyperGroup):
    """Our own commands, and those that other parts bring."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *sorted(_further().keys() - self.commands.keys())]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        entry = _further().get(cmd_name)
        return _load(entry) if entry else None


app = typer.Typer(
    cls=Commands,
    name="regroup",
    epilog=_EXIT_CODES,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _say_version(asked: bool) -> None:
    if asked:
        print(f"regroup {version('regroup')}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    url: Annotated[
        str | None,
        typer.Option(
            envvar="REGROUP_URL",
            help="The coordinator, or several with commas. Default: the one that runs on this machine.",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(help="A file with the coordinator's token. Default: REGROUP_TOKEN, or this machine's own."),
    ] = None,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Train on a cluster that loses workers and goes on."""
    context.obj = terminal.Options(url, token_file)


app.command(cls=submit.Submit)(submit.submit)
for command in (
    commands.jobs,
    commands.job,
    commands.checkpoints,
    commands.events,
    commands.pause,
    commands.resume,
    commands.stop,
    commands.cluster,
    commands.workers,
    commands.worker,
    commands.clear,
    commands.drain,
    commands.admit,
    secrets.join_token,
    secrets.metrics_token,
    secrets.secrets,
):
    app.command(cls=terminal.Command)(command)


def main() -> None:
    try:
        app()
    except RegroupError as error:
        sys.exit(terminal.report(error))
    except KeyboardInterrupt:
        sys.exit(terminal.INTERRUPTED)
    except OSError as error:  # the disk that the answer is written to may be full
        terminal.complain(f"cannot go on: {error.strerror or error}")
        sys.exit(terminal.FAILED)
