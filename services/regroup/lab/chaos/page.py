"""The matrix as one page of HTML: no script, nothing from elsewhere. Pure but for the file that it is written to.

Owns: how it looks. Refuses to know: what the results mean beyond `report`'s words.
"""

from collections.abc import Sequence
from html import escape

from regroup.lab.chaos.cells import Phase
from regroup.lab.chaos.report import MARKS, alone, milliseconds, summary, told
from regroup.lab.chaos.verdict import Outcome, Result

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --soft: #5b6575; --paper: #fbfbfd; --line: #e3e6ec;
  --passed: #dff3e4; --failed: #fbd9d7; --skipped: #fdf0cf; --alarm: #b42318; --code: #f0f1f5; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaf0; --soft: #a3adbd; --paper: #14171d; --line: #2b303b;
  --passed: #17402a; --failed: #5c1f1f; --skipped: #4a3b12; --alarm: #ff8a80; --code: #1d2129; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2.5rem auto;
  max-width: 76rem; padding: 0 1.5rem; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p { margin: .25rem 0; } .soft { color: var(--soft); } .alarm { color: var(--alarm); }
.scroll { overflow-x: auto; } table { border-collapse: separate; border-spacing: 4px; width: 100%;
  margin-top: 1.25rem; }
@media (min-width: 60rem) { .scroll { overflow: visible; } thead th { position: sticky; top: 0; } }
th { text-align: left; font-weight: 600; padding: .35rem .5rem; }
thead th { color: var(--soft); font-weight: 500; background: var(--paper); }
tbody th { min-width: 11rem; } tbody th small { display: block; font-weight: 400; color: var(--soft); }
td { padding: .45rem .6rem; border-radius: 6px; min-width: 6.5rem; font-variant-numeric: tabular-nums; }
td b { display: block; font-weight: 600; } td small { color: var(--soft); } td a { color: inherit; font-weight: 700; }
.passed { background: var(--passed); } .skipped { background: var(--skipped); }
.failed { background: var(--failed); outline: 2px solid var(--alarm); outline-offset: -2px; }
.impossible, .absent { color: var(--soft); text-align: center; }
article { border-left: 4px solid var(--alarm); padding: .1rem 0 .1rem 1rem; margin: 1rem 0; }
article h3 { font-size: 1rem; margin: 0; } article li { overflow-wrap: anywhere; }
article ul { margin: .25rem 0; padding-left: 1.2rem; } summary { cursor: pointer; color: var(--soft); }
code { font-size: .85rem; background: var(--code); border-radius: 4px; padding: .1rem .35rem; }
.story { font: 12px/1.5 ui-monospace, monospace; list-style: none; margin: .25rem 0; padding: 0; }
.story li { white-space: pre-wrap; padding-left: 23ch; text-indent: -23ch; }
"""


def page(results: Sequence[Result], machine: str) -> str:
    phases = [phase for phase in Phase if any(result.cell.phase is phase for result in results)]
    head = "".join(f"<th scope=col>{escape(phase)}</th>" for phase in phases)
    rows = "".join(_row(name, results, phases) for name in dict.fromkeys(one.cell.fault.name for one in results))
    failed = [result for result in results if result.outcome is Outcome.FAILED]
    return (
        "<!doctype html>\n<html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>Regroup: chaos</title><style>{_STYLE}</style>\n"
        f"<h1>Faults by phases</h1><p>{escape(summary(results))}</p><p class=soft>{escape(machine)}</p>\n"
        + ("<h2 class=alarm>What failed</h2>\n" if failed else "")
        + "".join(_failure(result) for result in failed)
        + f"<div class=scroll><table><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table></div>\n"
        "<p class=soft>Large: from the fault to the next committed step (in a checkpoint: to the state on disk). "
        "Small: to the event in the timeline that names it. Point at a cell for the rest.</p>\n"
        + _reasons(results)
        + "</html>\n"
    )


def _row(name: str, results: Sequence[Result], phases: Sequence[Phase]) -> str:
    row = {result.cell.phase: result for result in results if result.cell.fault.name == name}
    what = next(iter(row.values())).cell.fault.what
    cells = "".join(_cell(row.get(phase)) for phase in phases)
    return f"<tr><th scope=row>{escape(name)}<small>{escape(what)}</small></th>{cells}</tr>\n"


def _cell(result: Result | None) -> str:
    if result is None:
        return "<td class=absent></td>"
    seen = result.observed
    words = [told(seen), seen.remark] if seen else []
    title = escape("\n".join([*result.complaints, *filter(None, words)]), quote=True)
    if result.outcome is Outcome.PASSED and seen is not None:
        inner = f"<b>{milliseconds(seen.recovered)}</b><small>noticed {milliseconds(seen.noticed)}</small>"
    elif result.outcome is Outcome.FAILED:
        inner = f'<a href="#{escape(result.cell.name)}">{MARKS[result.outcome]}</a>'
    else:
        inner = MARKS[result.outcome]
    return f'<td class={result.outcome} title="{title}">{inner}</td>'


def _failure(result: Result) -> str:
    """Why, how to see it again, and what happened until then."""
    why = "".join(f"<li>{escape(each)}</li>" for each in result.complaints)
    lines = "".join(f"<li>{escape(each)}</li>" for each in result.story)
    story = f"<details><summary>the timeline</summary><ol class=story>{lines}</ol></details>" if lines else ""
    name = escape(result.cell.name)
    again = f"<code>{escape(alone(result.cell))}</code>"
    return f'<article id="{name}"><h3>{name}</h3><ul>{why}</ul>{again}{story}</article>\n'


def _reasons(results: Sequence[Result]) -> str:
    """Why cells were not run, each reason once."""
    reasons: dict[str, dict[str, list[str]]] = {}
    for result in results:
        if result.outcome in (Outcome.SKIPPED, Outcome.IMPOSSIBLE):
            faults = reasons.setdefault("; ".join(result.complaints), {})
            faults.setdefault(result.cell.fault.name, []).append(result.cell.phase)
    if not reasons:
        return ""
    told = {
        why: [f"{name} ({', '.join(phases)})" for name, phases in faults.items()] for why, faults in reasons.items()
    }
    items = "".join(f"<li>{escape(why)}: {escape(', '.join(cells))}</li>" for why, cells in told.items())
    return f"<h2>What was not run</h2><ul class=soft>{items}</ul>\n"
