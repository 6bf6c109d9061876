"""The phase tables as diagrams, for docs/protocol.md.

Owns: the text that Mermaid draws. Refuses to know: where it stands; a test compares the page with the tables.
"""

from collections.abc import Mapping
from enum import StrEnum


def diagram(arrows: Mapping[StrEnum, frozenset[StrEnum]]) -> str:
    """A state diagram in Mermaid's language. Phases that nothing leads to are first, those without arrows last."""
    reached = {after for afters in arrows.values() for after in afters}
    lines = ["stateDiagram-v2"]
    lines += [f"    [*] --> {phase}" for phase in arrows if phase not in reached]
    for before, afters in arrows.items():
        lines += [f"    {before} --> {after}" for after in sorted(afters) if after != before]
    lines += [f"    {phase} --> [*]" for phase, afters in arrows.items() if not afters]
    return "\n".join(lines)
