"""The phase tables as diagrams, for docs/protocol.md.

Owns: the text that Mermaid draws. Refuses to know: where it stands; a test compares the page with the tables.
"""

from collections.abc import Mapping
from enum import StrEnum


def diagram(arrows: Mapping[StrEnum, frozenset[StrEnum]]) -> str:
    """A state diagram in Mermaid's language. It begins with the table's first phase; those without arrows are last."""
    lines = ["stateDiagram-v2", f"    [*] --> {next(iter(arrows))}"]
    for before, afters in arrows.items():
        lines += [f"    {before} --> {after}" for after in sorted(afters) if after != before]
    lines += [f"    {phase} --> [*]" for phase, afters in arrows.items() if not afters]
    return "\n".join(lines)
