"""Text as bytes: from a file, a folder, or the default corpus that every machine has.

Owns: which files are read in which order, and the cutting of bytes into samples.
Refuses to know: models. A sample is a run of bytes.
Does not guarantee: that two machines with different Python releases have the same default corpus; workers compare
their datasets before they train together, and say so.
"""

import os
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Bytes = npt.NDArray[np.uint8]

# Tests, tables and bundled tools teach little Python, and some packagers leave them out.
TOOLS = frozenset(
    {"distutils", "encodings", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "test", "tests", "turtledemo"}
)
# Not the library's own, or different on each machine.
FOREIGN = frozenset({"__pycache__", "dist-packages", "site-packages", "sitecustomize.py", "usercustomize.py"})
FOREIGN_PREFIXES = ("_sysconfigdata", "config-")


def standard_library(max_bytes: int) -> Bytes:
    """The source text of the running Python's standard library, files in the order of their paths; about 8 MB."""

    def wanted(name: str) -> bool:
        return name not in TOOLS | FOREIGN and not name.startswith(FOREIGN_PREFIXES)

    root = Path(sysconfig.get_paths()["stdlib"])
    return _concatenated((path for path in _files(root, wanted) if path.suffix == ".py"), max_bytes)


def read_text(path: Path, max_bytes: int) -> Bytes:
    """The first `max_bytes` bytes of a file, or of all files below a folder in the order of their paths.

    Hidden files and folders are left out. Raises OSError for what cannot be read.
    """
    return _concatenated(_files(path, lambda name: True) if path.is_dir() else iter([path]), max_bytes)


def _files(root: Path, wanted: Callable[[str], bool]) -> Iterator[Path]:
    for folder, folders, files in os.walk(root, onerror=_raise):
        for names in (folders, files):  # in place: os.walk descends into the folders that are left, in their order
            names[:] = sorted(name for name in names if wanted(name) and not name.startswith("."))
        yield from (path for name in files if (path := Path(folder, name)).is_file())


def _raise(error: OSError) -> None:
    raise error


def _concatenated(paths: Iterator[Path], max_bytes: int) -> Bytes:
    parts = [np.empty(0, np.uint8)]
    left = max_bytes
    for path in paths:
        parts.append(np.fromfile(path, dtype=np.uint8, count=min(left, path.stat().st_size)))
        left -= len(parts[-1])
        if left == 0:
            break
    return np.concatenate(parts)


class ByteRuns:
    """Sample i is the bytes [i * sequence, i * sequence + sequence], an int64 tensor of shape (sequence + 1,).

    Neighbours share one byte: the last target of one is the first input of the next. Bytes that do not fill a sample
    are left out.
    """

    def __init__(self, text: Bytes, sequence: int) -> None:
        self._text = text
        self._sequence = sequence

    def __len__(self) -> int:
        return max(0, len(self._text) - 1) // self._sequence

    def __getitem__(self, index: int, /) -> Tensor:
        if not 0 <= index < len(self):
            raise IndexError(f"no sample {index} among {len(self)}")
        start = index * self._sequence
        return torch.from_numpy(self._text[start : start + self._sequence + 1].astype(np.int64))
