"""`regroup bench`: how fast the cluster recovers, and what it costs while nothing fails.

Owns: the commands, their progress, and that Ctrl-C leaves what was measured so far.
Refuses to know: how it is measured (`recovery`, `overhead`) and told (`telling`).
"""

import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from regroup.client import terminal
from regroup.client.errors import RegroupError
from regroup.client.printable import PlainConsole
from regroup.lab.bench import overhead, recovery, telling
from regroup.lab.bench.failing import BenchFailed
from regroup.lab.bench.machine import this_machine
from regroup.lab.bench.recovery import Outcome, Scenario, Whom
from regroup.lab.local import ClusterFailed
from regroup.lab.result_file import JsonFile, result_file

app = typer.Typer(
    help="Measure recovery and overhead on this machine.\n\nEach in a cluster of its own.",
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
)

DataDir = Annotated[
    Path | None,
    typer.Option(help="Keep records, logs and state in a new folder in here. Default: one that is removed afterwards."),
]


@app.command("recovery")
def measure_recovery(
    kills: Annotated[int, typer.Option(min=1, help="In each scenario.")] = 100,
    workers: Annotated[
        list[int] | None, typer.Option(min=2, max=16, help="Before a kill; give it again for more. Default: 2.")
    ] = None,
    whom: Annotated[
        list[Whom] | None,
        typer.Option(help="Is killed: the agent with its trainer, or the trainer. Default: both."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the instants and the victims.")] = 0,
    json_file: JsonFile = None,
    data_dir: DataDir = None,
) -> None:
    """Time from a kill to the next committed step.

    Workers are killed at random instants; how long it takes until each is back is measured, too.
    """
    scenarios = [
        Scenario(count, each) for count in dict.fromkeys(workers or [2]) for each in dict.fromkeys(whom or Whom)
    ]
    outcomes: list[Outcome] = []
    machine = this_machine()
    with result_file(json_file) as save:
        with _bench(data_dir) as (folder, end), _progress(kills * len(scenarios)) as progress:
            for scenario in scenarios:
                outcome = Outcome(scenario)
                outcomes.append(outcome)
                progress.begin(f"{scenario.workers} workers, kill the {scenario.whom}")
                try:
                    recovery.measure(
                        outcome, kills, folder / scenario.name, seed=seed, on_kill=lambda kill: progress.advance()
                    )
                finally:
                    for fault in outcome.faults:
                        terminal.complain(f"{scenario.name}: {fault}")
                        end.code = terminal.FAILED
        _tell(telling.recovery_tables(outcomes), machine, telling.RECOVERY_NOTES)
        save(telling.recovery_json(outcomes, machine, end.interrupted))
    raise typer.Exit(end.code)


@app.command("overhead")
def measure_overhead(
    rounds: Annotated[int, typer.Option(min=1, help="Of each side, for each model.")] = 30,
    steps: Annotated[int, typer.Option(min=1, help="In each round.")] = 20,
    json_file: JsonFile = None,
    data_dir: DataDir = None,
) -> None:
    """Compare the step time with plain torchrun + DDP.

    Of a job of two workers, everything on; the model and the batch are the same.
    """
    duels = [overhead.Duel(model) for model in overhead.MODELS]
    machine = this_machine()
    with result_file(json_file) as save:
        with _bench(data_dir) as (folder, end), _progress(rounds * len(duels)) as progress:
            for number, duel in enumerate(duels):
                progress.begin(duel.model.name)
                overhead.measure(duel, rounds, steps, folder / f"model-{number}", on_round=progress.advance)
        _tell([telling.overhead_table(duels, steps)], machine, telling.OVERHEAD_NOTES)
        save(telling.overhead_json(duels, machine, steps, end.interrupted))
    raise typer.Exit(end.code)


class _End:
    """How the measuring ended: the exit code, and whether by Ctrl-C."""

    code = terminal.OK
    interrupted = False


@contextmanager
def _bench(given: Path | None) -> Iterator[tuple[Path, _End]]:
    """A new folder to work in. Whatever ends the measuring early is told here, so that the figures so far still are."""
    end, place = _End(), given and given.expanduser().absolute()
    try:
        if place is not None:
            place.mkdir(parents=True, exist_ok=True)
        folder = Path(mkdtemp(prefix="regroup-bench-", dir=place))
    except OSError as error:
        terminal.give_up(f"cannot make a folder to work in: {error}", terminal.FAILED)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what was started is stopped
    try:
        yield folder, end
    except KeyboardInterrupt:
        end.code, end.interrupted = end.code or terminal.INTERRUPTED, True
        terminal.complain("interrupted: the figures are of what was measured until then")
    except (BenchFailed, ClusterFailed, RegroupError, OSError) as error:
        end.code = terminal.FAILED
        terminal.complain(f"bench: {error}")
    if given is None and end.code != terminal.FAILED:
        shutil.rmtree(folder)
    else:
        print(f"records and logs are kept in {folder}", file=sys.stderr)


class _Progress:
    """A bar on a terminal, a line for each part elsewhere. Both on standard error."""

    def __init__(self, bar: Progress, total: int) -> None:
        self._bar, self._task = bar, bar.add_task("starting", total=total)

    def begin(self, what: str) -> None:
        self._bar.update(self._task, description=what)
        if not self._bar.console.is_terminal:
            print(f"{what} ...", file=sys.stderr, flush=True)

    def advance(self) -> None:
        self._bar.advance(self._task)


@contextmanager
def _progress(total: int) -> Iterator[_Progress]:
    console = PlainConsole(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal) as bar:
        yield _Progress(bar, total)


def _tell(tables: list[Any], machine: Any, notes: tuple[str, ...]) -> None:
    for table in tables:
        terminal.write(table)
    terminal.write(f"\n{machine}\n")
    for note in notes:
        terminal.write(f"- {note}")
