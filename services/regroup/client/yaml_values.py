"""YAML as people mean it in a job file: the core schema of YAML 1.2, where 1e-3 is a number and `on` is a word.

Owns: which plain words are numbers, booleans or null. PyYAML's own rules are YAML 1.1's: 1e-3 a string, `no` false,
2024-01-01 a date, 1:30 ninety.
Refuses to know: what the values are for.
"""

import re
from typing import Any

import yaml


class BadYaml(ValueError):
    """The text is no YAML of the kind meant here: one line saying where and why."""


class _CoreLoader(yaml.SafeLoader):
    """A safe loader that resolves plain words by YAML 1.2's core schema."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - as PyYAML declares it


_CoreLoader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(true|True|TRUE|false|False|FALSE)$"), None)
_CoreLoader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(~|null|Null|NULL|)$"), None)
_CoreLoader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^([-+]?[0-9]+|0x[0-9a-fA-F]+)$"), None)
_CoreLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$"),
    None,
)


def _integer(loader: _CoreLoader, node: yaml.ScalarNode) -> int:
    text = str(node.value)
    return int(text, 16) if text.startswith("0x") else int(text)  # 1.1 would read 010 as eight


_CoreLoader.add_constructor("tag:yaml.org,2002:int", _integer)


def read_yaml(text: str) -> Any:
    """The one document in `text`. Raises BadYaml."""
    try:
        return yaml.load(text, _CoreLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadYaml(_where(error)) from None


def _where(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and (mark := error.problem_mark):
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return " ".join(str(error).split())
