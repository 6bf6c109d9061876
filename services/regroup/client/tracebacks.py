"""Which tracebacks help a user: those that lead through a file that is not Regroup's own.

Owns: telling apart the user's files and packages, Regroup's and the interpreter's, wherever the worker had them.
Refuses to know: how an error is shown. Does not guarantee: that a frame in somebody's file is the cause.
"""

import re
from pathlib import Path

import regroup

_OURS = Path(regroup.__file__).parent
_FRAME = re.compile(r'^\s*File "(.+)", line \d+', re.MULTILINE)
_INTERPRETER = re.compile(r"^<|/lib/python3\.\d+/(?!(?:site|dist)-packages/)")


def helps(error: str) -> bool:
    """Whether a job's error says more than its last line: it is no traceback, or one with a frame of somebody else."""
    files = _FRAME.findall(error)
    return not files or not all(_is_ours(file) or _INTERPRETER.search(file) for file in files)


def _is_ours(file: str) -> bool:
    _, found, inner = file.rpartition("/regroup/")
    return bool(found) and (_OURS / inner).is_file()
