"""The matrix as one page of HTML: no script, nothing from elsewhere. Pure but for the file that it is written to.

Owns: how it looks. Refuses to know: what the results mean beyond `report`'s words.
"""

from collections.abc import Sequence
from html import escape

from regroup.lab.chaos.cells import Phase
from regroup.lab.chaos.report import MARKS, milliseconds, summary, told
from regroup.lab.chaos.verdict import Outcome, Result

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --soft: #667085; --paper: #fbfbfd; --line: #e3e6ec;
  --passed: #dff3e4; --failed: #fbd9d7; --skipped: #fdf0cf; --none: transparent; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaf0; --soft: #98a2b3; --paper: #14171d; --line: #2b303b;
  --passed: #17402a; --failed: #5c1f1f; --skipped: #4a3b12; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2.5rem auto;
  max-width: 76rem; padding: 0 1.5rem; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p { margin: .25rem 0; } .soft { color: var(--soft); }
.scroll { overflow-x: auto; } table { border-collapse: separate; border-spacing: 4px; width: 100%;
  margin-top: 1.25rem; }
th { text-align: left; font-weight: 600; padding: .35rem .5rem; } thead th { color: var(--soft); font-weight: 500; }
tbody th small { display: block; font-weight: 400; color: var(--soft); }
td { padding: .45rem .6rem; border-radius: 6px; min-width: 6.5rem; font-variant-numeric: tabular-nums; }
td b { display: block; font-weight: 600; } td small { color: var(--soft); }
.passed { background: var(--passed); } .failed { background: var(--failed); } .skipped { background: var(--skipped); }
.impossible, .absent { color: var(--soft); text-align: center; }
details { border-top: 1px solid var(--line); padding: .5rem 0; } pre { overflow-x: auto; font-size: 12px; }
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
        f"<div class=scroll><table><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table></div>\n"
        "<p class=soft>Large: from the fault to the next committed step (in a checkpoint: to the state on disk). "
        "Small: to the event in the timeline that names it. Point at a cell for the rest.</p>\n"
        + ("<h2>What failed</h2>" if failed else "")
        + "".join(_failure(result) for result in failed)
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
    else:
        inner = MARKS[result.outcome]
    return f'<td class={result.outcome} title="{title}">{inner}</td>'


def _failure(result: Result) -> str:
    told_here = escape("\n".join([*result.complaints, "", *result.story]))
    return f"<details open><summary>{escape(result.cell.name)}</summary><pre>{told_here}</pre></details>\n"


def _reasons(results: Sequence[Result]) -> str:
    """Why cells were not run, each reason once."""
    reasons: dict[str, list[str]] = {}
    for result in results:
        if result.outcome in (Outcome.SKIPPED, Outcome.IMPOSSIBLE):
            reasons.setdefault("; ".join(result.complaints), []).append(result.cell.name)
    if not reasons:
        return ""
    items = "".join(f"<li>{escape(', '.join(names))}: {escape(reason)}</li>" for reason, names in reasons.items())
    return f"<h2>What was not run</h2><ul class=soft>{items}</ul>\n"
