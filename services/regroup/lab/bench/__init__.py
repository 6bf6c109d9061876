"""`regroup bench`: how fast the cluster recovers, and what it costs: while nothing fails, under kills, to save.

Owns: the commands, their progress, and that Ctrl-C leaves what was measured so far.
Refuses to know: how it is measured (`recovery`, `overhead`, `goodput`, `checkpointing`) and told (`telling`).
"""

import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from regroup.client import terminal
from regroup.client.errors import RegroupError
from regroup.client.printable import PlainConsole
from regroup.lab.bench import checkpointing, goodput, overhead, recovery, telling, telling_costs
from regroup.lab.bench.failing import BenchFailed
from regroup.lab.bench.machine import this_machine
from regroup.lab.bench.recovery import Outcome, Scenario, Whom
from regroup.lab.local import ClusterFailed
from regroup.lab.result_file import JsonFile, result_file
from regroup.lab.work_folder import leave, work_folder

app = typer.Typer(
    help="Measure recovery, overhead, goodput and checkpoints here.\n\nEach in a cluster of its own.",
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


@app.command("goodput")
def measure_goodput(
    every: Annotated[
        list[float] | None,
        typer.Option(min=1.0, max=3600.0, help="Seconds between kills; give it again for more. Default: 5, 60."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Of a calm and a disturbed stretch, for each period.")] = 5,
    seconds: Annotated[
        float, typer.Option(min=1.0, max=36_000.0, help="Of a stretch; a period that is longer is one.")
    ] = 60.0,
    seed: Annotated[int, typer.Option(help="Of the instants and the victims.")] = 0,
    json_file: JsonFile = None,
    data_dir: DataDir = None,
) -> None:
    """Compare the speed under kills with the undisturbed one.

    Of a job of three workers, of which one trainer drawn at random is killed in each period.
    """
    outcomes = [goodput.Outcome(each) for each in dict.fromkeys(every or [5.0, 60.0])]
    ending, machine = goodput.Ending(), this_machine()
    with result_file(json_file) as save:
        with _bench(data_dir) as (folder, end), _progress(rounds * len(outcomes)) as progress:
            progress.begin("rounds of a calm and a disturbed stretch")
            try:
                goodput.measure(
                    outcomes, ending, rounds, seconds, folder / "cluster", seed=seed, on_round=progress.advance
                )
            finally:
                for fault in ending.faults:
                    terminal.complain(fault)
                    end.code = terminal.FAILED
        _tell([telling_costs.goodput_table(outcomes)], machine, telling_costs.GOODPUT_NOTES)
        if ending.audit is not None:
            terminal.write(f"\n{ending.audit.summary}; {ending.audit.lost} lost, {ending.audit.doubled} doubled")
        save(telling_costs.goodput_json(outcomes, ending, seconds, machine, end.interrupted))
    raise typer.Exit(end.code)


def _count(given: str | int) -> int:
    """A number that may end in K, M or G."""
    text = str(given)
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([KMG]?)", text.strip().upper())
    if found is None or not 1_000 <= (count := float(found[1]) * 1000 ** " KMG".index(found[2] or " ")) <= 1e9:
        raise typer.BadParameter(f"{text!r} must be a number from 1K to 1G, such as 25M")
    return int(count)


@app.command("checkpoint")
def measure_checkpoint(
    parameters: Annotated[
        int, typer.Option(parser=_count, metavar="COUNT", help="Of the model, such as 25M.")
    ] = 25_000_000,
    every: Annotated[int, typer.Option(min=10, max=100_000, help="Steps between two checkpoints.")] = 50,
    rounds: Annotated[int, typer.Option(min=1, help="Of each side, with a checkpoint each.")] = 15,
    json_file: JsonFile = None,
    data_dir: DataDir = None,
) -> None:
    """Measure what saving the state costs the steps.

    Of a job of two workers: how long the step loop waits, and the speed with and without.
    """
    outcome, machine = checkpointing.Outcome(parameters, every), this_machine()
    with result_file(json_file) as save:
        with _bench(data_dir) as (folder, end), _progress(rounds) as progress:
            progress.begin("rounds with and without a checkpoint")
            checkpointing.measure(outcome, rounds, folder, on_round=progress.advance)
        _tell([telling_costs.checkpoint_table(outcome)], machine, telling_costs.CHECKPOINT_NOTES)
        save(telling_costs.checkpoint_json(outcome, machine, end.interrupted))
    raise typer.Exit(end.code)


class _End:
    """How the measuring ended: the exit code, and whether by Ctrl-C."""

    code = terminal.OK
    interrupted = False


@contextmanager
def _bench(given: Path | None) -> Iterator[tuple[Path, _End]]:
    """A new folder to work in. Whatever ends the measuring early is told here, so that the figures so far still are."""
    end, folder = _End(), work_folder(given, "bench")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what was started is stopped
    try:
        yield folder, end
    except KeyboardInterrupt:
        end.code, end.interrupted = end.code or terminal.INTERRUPTED, True
        terminal.complain("interrupted: the figures are of what was measured until then")
    except (BenchFailed, ClusterFailed, RegroupError, OSError) as error:
        end.code = terminal.FAILED
        terminal.complain(f"bench: {error}")
    leave(folder, keep=given is not None or end.code == terminal.FAILED)


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
