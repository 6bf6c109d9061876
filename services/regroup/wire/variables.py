"""Where one setting of an operator is found, for whoever asks for one or two of them every few seconds: a health check.

Owns: the prefix, and that a setting may also be a file of its name in REGROUP_SECRETS_DIR (so Docker and Kubernetes
hand out secrets).
Refuses to know: which settings there are, and whether a value can be used (`environment`, whose library takes longer to
import than a health check may).
"""

import os
from collections.abc import Mapping
from pathlib import Path

PREFIX = "REGROUP_"
SECRETS_DIR = f"{PREFIX}SECRETS_DIR"


def said(name: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """What REGROUP_`name` is, in letters of any case; None: nobody set it, or its file cannot be read."""
    variable = f"{PREFIX}{name}".lower()
    if given := {each.lower(): value for each, value in environ.items()}.get(variable):
        return given
    try:
        folder = environ.get(SECRETS_DIR)
        files = [path for path in Path(folder).iterdir() if path.name.lower() == variable] if folder else []
        return files[0].read_text().strip() or None if files else None
    except (OSError, UnicodeDecodeError):
        return None
