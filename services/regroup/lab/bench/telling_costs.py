"""What goodput and checkpoints came to: tables for people, JSON for programs.

Owns: the names of these figures, their units, and what is said to be left out. Refuses to know: how they were measured.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from regroup.lab.bench import checkpointing, goodput
from regroup.lab.bench.figures import Interval, spread
from regroup.lab.bench.machine import Machine, told_settings
from regroup.lab.bench.recovery import SETTINGS
from regroup.lab.bench.telling import interval, ms, rounded, rounded_values, spread_of

GOODPUT_NOTES = (
    f"Goodput: committed steps per second while one of {goodput.WORKERS} trainers, drawn at random, gets SIGKILL in "
    "each period, over those of the same job in calm. Stretches alternate; each ratio is of one round of two, and the "
    "interval is the 95 % bootstrap interval of the median. totals: all rounds together.",
    "lost: ms of training at the calm speed, in the five seconds after a kill or until the next one. It is made up of "
    "the standstill until the survivors commit, of the standstill when the new trainer joins, and of the rest: what "
    "its start takes from the others, and noise.",
    "A stretch ends when all train together again. CPU: processor seconds of all processes of the cluster per kill, "
    "beyond what as many steps take in calm; the part of a step that was done again is in it.",
    told_settings(SETTINGS),
    "Not measured: several machines, GPUs, agents or machines that die.",
)
CHECKPOINT_NOTES = (
    "wait: the step loop stands still while the leader copies its state, as a share of the time of the steps between "
    "two checkpoints; how long that took is in the trainer's log.",
    "with / without: time of a round with a checkpoint near its start over one without, of two jobs of 2 workers that "
    "take turns; what the writing thread takes from the steps is in it. 95 % bootstrap interval of the median ratio.",
    "first: how long it stands still at the first checkpoint that a leader takes, which meets new memory; it is "
    "in no other figure, and every new leader pays it once.",
    "Not measured: several machines, GPUs, storage behind a URL.",
)


def goodput_json(
    outcomes: Sequence[goodput.Outcome], ending: goodput.Ending, seconds: float, machine: Machine, interrupted: bool
) -> dict[str, Any]:
    """By the seconds between kills."""
    audit = ending.audit
    return {
        "goodput": {f"{outcome.every:g}": _goodput_figures(outcome) for outcome in outcomes},
        "lost_samples": audit.lost if audit else None,
        "duplicated_samples": audit.doubled if audit else None,
        "restarts": ending.restarts,
        "audit": audit.summary if audit else None,
        "model": {"name": goodput.MODEL, "task": "gpt", "options": goodput.OPTIONS},
        "workers": goodput.WORKERS,
        "seconds_per_stretch": seconds,
        "interrupted": interrupted,
        "machine": asdict(machine),
        "notes": list(GOODPUT_NOTES),
    }


def _goodput_figures(outcome: goodput.Outcome) -> dict[str, Any]:
    costs = {"lost_ms": _lost, "stood_ms": _stood, "returned_ms": _returned, "slowed_ms": _slowed}
    return {
        "ratio": interval(outcome.goodput),
        "ratio_of_totals": rounded(outcome.total, 4),
        "kills": outcome.kills,
        **{name: spread_of(spread(outcome.costs(of))) for name, of in costs.items()},
        "processor_seconds_per_kill": spread_of(spread([each.respawn for each in outcome.rounds])),
        "each": [
            {
                "ratio": round(each.goodput, 4),
                "calm": rounded_values(asdict(each.calm)),
                "disturbed": rounded_values(asdict(each.disturbed)),
                "processor_seconds_per_kill": round(each.respawn, 3),
                "kills": [rounded_values(asdict(cost)) for cost in each.costs],
            }
            for each in outcome.rounds
        ],
    }


def goodput_table(outcomes: Sequence[goodput.Outcome]) -> Table:
    table = Table(title=f"What is left of the speed under kills ({goodput.MODEL})", title_justify="left")
    names = ("a kill every", "rounds", "kills", "step ms", "goodput", "95 %", "totals")
    more = ("lost p50 ms", "p95", "stood", "at return", "slowed", "CPU s a kill")
    for name in (*names, *more):
        table.add_column(name, justify="right")
    for outcome in outcomes:
        ratio, lost = outcome.goodput, spread(outcome.costs(_lost))
        calm = spread([1e3 / each.calm.rate for each in outcome.rounds])
        used = spread([each.respawn for each in outcome.rounds])
        table.add_row(
            f"{outcome.every:g} s",
            str(len(outcome.rounds)),
            str(outcome.kills),
            ms(calm.p50 if calm else None),
            f"{ratio.median:.1%}" if ratio else "-",
            _percents(ratio),
            f"{outcome.total:.1%}" if outcome.total else "-",
            ms(lost.p50 if lost else None),
            ms(lost.p95 if lost else None),
            *(ms(found.p50 if (found := spread(outcome.costs(of))) else None) for of in (_stood, _returned, _slowed)),
            f"{used.p50:.2f}" if used else "-",
        )
    return table


def checkpoint_json(outcome: checkpointing.Outcome, machine: Machine, interrupted: bool) -> dict[str, Any]:
    return {
        "parameters": outcome.parameters,
        "every": outcome.every,
        "bytes": outcome.bytes,
        "rounds": len(outcome.rounds),
        "step_ms": rounded(outcome.step_ms),
        "first_ms": rounded(outcome.first * 1e3 if outcome.first is not None else None),
        "wait_share": interval(outcome.wait),
        "ratio": interval(outcome.ratio),
        "ratio_of_totals": rounded(outcome.ratio_of_totals, 4),
        "outlasted": sum(each.outlasted for each in outcome.rounds),
        "each": [{key: round(value, 4) for key, value in asdict(each).items()} for each in outcome.rounds],
        "interrupted": interrupted,
        "machine": asdict(machine),
        "notes": list(CHECKPOINT_NOTES),
    }


def checkpoint_table(outcome: checkpointing.Outcome) -> Table:
    million = f"{outcome.parameters / 1e6:g} million parameters"
    table = Table(title=f"A checkpoint every {outcome.every} steps (mlp, {million})", title_justify="left")
    names = ["rounds", "step ms", "MB", "copied ms", "first", "written ms", "wait", "95 %"]
    names += ["with / without", "95 %", "totals"]
    for name in names:
        table.add_column(name, justify="right")
    ratio, wait = outcome.ratio, outcome.wait
    copied, written = (
        spread([of * 1e3 for of in times])
        for times in ([each.copied for each in outcome.rounds], [each.written for each in outcome.rounds])
    )
    table.add_row(
        str(len(outcome.rounds)),
        ms(outcome.step_ms),
        f"{outcome.bytes / 1e6:.0f}" if outcome.bytes else "-",
        ms(copied.p50 if copied else None),
        ms(outcome.first * 1e3 if outcome.first is not None else None),
        ms(written.p50 if written else None),
        f"{wait.median:.2%}" if wait else "-",
        f"{wait.low:.2%} to {wait.high:.2%}" if wait else "-",
        f"{ratio.median:.3f}" if ratio else "-",
        f"{ratio.low:.3f} to {ratio.high:.3f}" if ratio else "-",
        f"{outcome.ratio_of_totals:.3f}" if outcome.ratio_of_totals else "-",
    )
    return table


def _percents(given: Interval | None) -> str:
    return f"{given.low:.1%} to {given.high:.1%}" if given else "-"


def _lost(cost: goodput.Cost) -> float:
    return cost.lost


def _stood(cost: goodput.Cost) -> float:
    return cost.stood


def _returned(cost: goodput.Cost) -> float | None:
    return cost.returned


def _slowed(cost: goodput.Cost) -> float:
    return cost.slowed
