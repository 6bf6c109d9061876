"""What the benchmarks tell: tables for people, JSON for programs.

Owns: the names of the figures, their units, and what is said to be left out. Refuses to know: how they were measured.
"""

from dataclasses import asdict
from typing import Any

from rich.table import Column, Table

from regroup.lab.bench.figures import Interval, Spread
from regroup.lab.bench.machine import Machine, told_settings
from regroup.lab.bench.overhead import DDP, OURS, SEPARATE, Duel
from regroup.lab.bench.recovery import GLOBAL_BATCH, MODEL, OPTIONS, SETTINGS, Outcome, Whom

RECOVERY_NOTES = (
    "The clock starts just before SIGKILL is sent at a random instant, and stops at the first step that a survivor "
    "wrote down as committed, in a newer generation; that whole step is in it.",
    "step: median of the survivors alone and undisturbed. With the agent killed, it is taken after each kill, before "
    "the worker is started again. With the trainer alone killed, its agent starts another at once, which prepares "
    "beside the survivors; step is then taken from kills of the agent in between, which no other figure counts.",
    "lost, doubled: samples of the committed steps, by the audit. undone: steps that survivors had committed and that "
    "were done again. With any of these, or a restart of the job from its seed, the benchmark fails.",
    "rejoin: from the start of the killed worker (agent) or from the kill (trainer) until a step is committed that it "
    "took part in.",
    told_settings(SETTINGS),
    "Not measured: several machines, machines that vanish without closing their connections, hangs, kills while a "
    "regroup is under way, GPUs.",
)
OVERHEAD_NOTES = (
    "Ours has everything on: coordinator, store, agents, heartbeats, records, digests, progress reports. The rival's "
    "batches lie in memory, it logs nothing and reads no loss.",
    "Rounds of all sides alternate, the others held at a gate; each ratio is of one round. The interval is the 95 % "
    "bootstrap interval of the median ratio. totals: all rounds together, so that rare costs are not hidden.",
    "Held sides still have their heartbeats, also while the rival runs.",
    "Not measured: several machines, GPUs, more than two workers, evaluation, checkpoints.",
)


# --- recovery


def recovery_figures(outcome: Outcome) -> dict[str, Any]:
    """One scenario. Times in ms; null where there is nothing yet."""
    audit = outcome.audit
    return {
        "workers": outcome.scenario.workers,
        "whom": str(outcome.scenario.whom),
        "kills": len(outcome.kills),
        "lost_samples": audit.lost if audit else None,
        "duplicated_samples": audit.doubled if audit else None,
        "lost_steps": outcome.lost_steps,
        "restarts": outcome.restarts,
        "audit": audit.summary if audit else None,
        "step_ms": rounded(outcome.step_ms),
        "kill_to_commit_ms": spread_of(outcome.times(lambda kill: kill.committed)),
        "rejoin_ms": spread_of(outcome.times(lambda kill: kill.rejoined)),
        "since_kill_ms": {
            "noticed": spread_of(outcome.times(lambda kill: kill.noticed)),
            "formed": spread_of(outcome.times(lambda kill: kill.formed)),
            "regrouped": spread_of(outcome.times(lambda kill: kill.regrouped)),
        },
        "several_tries": sum(kill.generations > 1 for kill in outcome.kills),
        "each": [rounded_values(asdict(kill)) for kill in outcome.kills],
    }


def recovery_json(outcomes: list[Outcome], machine: Machine, interrupted: bool) -> dict[str, Any]:
    """The first scenario's figures at the top, all scenarios by name below."""
    scenarios = {outcome.scenario.name: recovery_figures(outcome) for outcome in outcomes}
    counts = ("kills", "lost_samples", "duplicated_samples", "lost_steps", "restarts")
    top = (*counts, "step_ms", "kill_to_commit_ms", "rejoin_ms")
    first = next(iter(scenarios.values()), {})
    return {
        **{key: first.get(key) for key in top},
        "scenarios": scenarios,
        "model": {"name": MODEL, "task": "gpt", "options": OPTIONS, "global_batch": GLOBAL_BATCH},
        "interrupted": interrupted,
        "machine": asdict(machine),
        "notes": list(RECOVERY_NOTES),
    }


def recovery_tables(outcomes: list[Outcome]) -> list[Table]:
    times = _by_scenario(
        f"From a kill to the next committed step, ms ({MODEL})",
        ("kills", "step", "p50", "p95", "max", "p50 - step", "p95 - step"),
    )
    costs = _by_scenario(
        "What it cost, and until the killed worker was back, ms",
        ("lost", "doubled", "undone", "rejoin p50", "p95", "max"),
    )
    where = _by_scenario(
        "Where the time goes: ms since the kill, p50 / p95",
        ("noticed", "formation issued", "all formed", "step committed", "tried again"),
    )
    for outcome in outcomes:
        scenario, step, audit = outcome.scenario, outcome.step_ms, outcome.audit
        commit, rejoin = outcome.times(lambda kill: kill.committed), outcome.times(lambda kill: kill.rejoined)
        who = "trainer alone" if scenario.whom is Whom.TRAINER else "agent + trainer"
        row = [f"{scenario.workers} to {scenario.workers - 1}", who]
        over = [ms(value - step) for value in (commit.p50, commit.p95)] if commit and step else ["-", "-"]
        times.add_row(*row, str(len(outcome.kills)), ms(step), *three(commit), *over)
        counts = [str(audit.lost), str(audit.doubled)] if audit else ["-", "-"]
        costs.add_row(*row, *counts, str(outcome.lost_steps), *three(rejoin))
        parts = (lambda kill: kill.noticed, lambda kill: kill.formed, lambda kill: kill.regrouped)
        spreads = [*(outcome.times(part) for part in parts), commit]
        again = sum(kill.generations > 1 for kill in outcome.kills)
        where.add_row(*row, *(f"{ms(s.p50)} / {ms(s.p95)}" if s else "-" for s in spreads), str(again))
    return [times, costs, where]


def _by_scenario(title: str, names: tuple[str, ...]) -> Table:
    columns = (Column(name, justify="right") for name in ("workers", "killed", *names))
    return Table(*columns, title=title, title_justify="left")


# --- overhead

_SIDES = {"regroup": OURS, "regroup_not_independent": SEPARATE, "ddp": DDP}


def overhead_figures(duel: Duel) -> dict[str, Any]:
    """One model. Times in ms per step."""
    model = duel.model
    return {
        "task": model.task,
        "options": dict(model.options),
        "global_batch": model.global_batch,
        "rounds": len(duel.rounds),
        "ratio_to_ddp": interval(duel.ratio()),
        "ratio_of_totals": rounded(duel.ratio_of_totals(), 4),
        "ratio_not_independent": interval(duel.ratio(SEPARATE)),
        "step_ms": {key: rounded(duel.step_ms(side)) for key, side in _SIDES.items()},
        "exchange_share": rounded(duel.exchange_share.get(OURS), 4),
        "exchange_share_not_independent": rounded(duel.exchange_share.get(SEPARATE), 4),
        "each": [
            {
                "regroup": round(one[OURS], 3),
                "regroup_not_independent": round(one[SEPARATE], 3),
                "ddp": round(one[DDP], 3),
            }
            for one in duel.rounds
        ],
    }


def overhead_json(duels: list[Duel], machine: Machine, steps: int, interrupted: bool) -> dict[str, Any]:
    """The worse model's ratio at the top, each model's below."""
    measured = [(ratio.median, duel) for duel in duels if (ratio := duel.ratio())]
    worse = max(measured, key=lambda each: each[0])[1] if measured else None
    return {
        "ratio_to_ddp": interval(worse.ratio() if worse else None),
        "worse_model": worse.model.name if worse else None,
        "rounds": min((len(duel.rounds) for duel in duels), default=0),
        "steps_per_round": steps,
        "models": {duel.model.name: overhead_figures(duel) for duel in duels},
        "interrupted": interrupted,
        "machine": asdict(machine),
        "notes": list(OVERHEAD_NOTES),
    }


def overhead_table(duels: list[Duel], steps: int) -> Table:
    title = f"Step time of 2 workers over torchrun + DDP, rounds of {steps} steps"
    table = Table(title=title, title_justify="left")
    names = ("model", "batch", "samples declared", "rounds", "ours ms", "DDP ms", "ratio", "95 %", "totals", "exchange")
    for number, name in enumerate(names):
        table.add_column(name, justify="left" if number in (0, 2) else "right")
    for duel in duels:
        for side, declared in ((OURS, "independent"), (SEPARATE, "dependent")):
            ratio, share = duel.ratio(side), duel.exchange_share.get(side)
            total = duel.ratio_of_totals(side)
            table.add_row(
                duel.model.name,
                str(duel.model.global_batch),
                declared,
                str(len(duel.rounds)),
                ms(duel.step_ms(side)),
                ms(duel.step_ms(DDP)),
                f"{ratio.median:.3f}" if ratio else "-",
                f"{ratio.low:.3f} to {ratio.high:.3f}" if ratio else "-",
                f"{total:.3f}" if total else "-",
                f"{share:.1%}" if share is not None else "-",
            )
    return table


# --- numbers


def spread_of(spread: Spread | None) -> dict[str, float] | None:
    return rounded_values(asdict(spread)) if spread else None


def interval(given: Interval | None) -> dict[str, float] | None:
    return {key: round(value, 4) for key, value in asdict(given).items()} if given else None


def rounded(value: float | None, digits: int = 2) -> float | None:
    return None if value is None else round(value, digits)


def rounded_values(values: dict[str, Any]) -> dict[str, Any]:
    return {key: round(value, 2) if isinstance(value, float) else value for key, value in values.items()}


def ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}"


def three(spread: Spread | None) -> list[str]:
    return [ms(spread.p50), ms(spread.p95), ms(spread.max)] if spread else ["-"] * 3
