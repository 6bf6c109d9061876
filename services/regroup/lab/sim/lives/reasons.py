"""Every reason that a decision can have, found in the source of `core`, and which of them a simulation reached.

Owns: how a sentence in the code becomes a pattern. A reason is any string with a blank in it that is no docstring, no
annotation and no exception's text.
Refuses to know: what is decided for which reason.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import regroup.core
from regroup.core.cluster import Cluster

MODULES = ("absence", "blame", "decide", "regroup", "reports", "rounds", "schedule", "suspicion", "turn")

# Reached by none of the simulator's worlds, and why.
EXPLAINED: Mapping[str, str] = {
    "without a word": "every report of a failure has a traceback or a cause; this is for one that has neither",
    "{} knows generation {}, above the coordinator's": (
        "a number is asked for only once it is durable; this is for a store that loses what it confirmed"
    ),
}


def told(before: Cluster, after: Cluster) -> Iterator[str]:
    """What a decision gives as reasons beside its notes: of jobs, of workers, of those that are dead or refused."""
    for id, job in after.jobs.items():
        old = before.jobs.get(id)
        if job is not old:
            yield job.reason
            if old is None or job.failures is not old.failures:
                yield from (failure.error for failure in job.failures)
    for name, worker in after.workers.items():
        if worker is not before.workers.get(name):
            yield worker.reason
    for id, watch in after.watches.items():
        known = before.watches.get(id)
        if known is None or watch.dead is not known.dead:
            yield from watch.dead.values()


@cache
def sentences() -> dict[str, re.Pattern[str]]:
    """module:line -> the pattern of a reason."""
    folder = Path(regroup.core.__file__).parent
    found: dict[str, re.Pattern[str]] = {}
    for module in MODULES:
        tree = ast.parse((folder / f"{module}.py").read_text())
        for node in _reasons(tree):
            found[f"core/{module}.py:{node.lineno}  {_shown(node)}"] = re.compile(_pattern(node))
    return found


def unreached(reasons: Iterable[str]) -> list[str]:
    text = "\n".join(reasons)
    return [name for name, pattern in sentences().items() if not pattern.search(text)]


def _reasons(tree: ast.AST) -> Iterator[ast.JoinedStr | ast.Constant]:
    skipped: set[int] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            skipped.update(id(each) for each in ast.walk(body[0]))
        if isinstance(node, ast.Raise | ast.Assert):
            skipped.update(id(each) for each in ast.walk(node))
        if isinstance(node, ast.JoinedStr):
            skipped.update(id(each) for each in node.values)
    for node in ast.walk(tree):
        if not isinstance(node, ast.JoinedStr | ast.Constant) or id(node) in skipped:
            continue
        if any(text is not None and " " in text for text in _parts(node)):
            yield node


def _parts(node: ast.JoinedStr | ast.Constant) -> list[str | None]:
    """The words of a sentence, and None where a value stands."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    texts = [part.value if isinstance(part, ast.Constant) else None for part in parts]
    return [text for text in texts if text is None or isinstance(text, str)]


def _pattern(node: ast.JoinedStr | ast.Constant) -> str:
    return "".join(".*?" if text is None else re.escape(text) for text in _parts(node))


def _shown(node: ast.JoinedStr | ast.Constant) -> str:
    return "".join("{}" if text is None else text for text in _parts(node))
