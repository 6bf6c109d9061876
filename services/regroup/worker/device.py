"""What a worker is to train on, as its operator says it, and why this machine may not have it.

Owns: which words name a device, and what is missing for a GPU: torch's part, the driver, or one that is visible here.
Refuses to know: torch, which an agent never imports: it reads what it was built for, and asks the driver itself.
Does not guarantee: that a GPU which the driver counts is sound, or has memory left.
"""

import ctypes
import re
from importlib.util import find_spec
from pathlib import Path

DRIVER = "libcuda.so.1"
NOT_YET = "must be cpu: training on cuda is not there yet"
NO_DEVICE = 100  # of the driver's own numbers (CUresult)


def expect_device(device: str, driver: str = DRIVER) -> str:
    """Raises ValueError, which says what to do, if this machine cannot train on it."""
    if device == "cpu":
        return device
    if device != "cuda":
        raise ValueError(f"must be cpu or cuda, not {device[:40]}")
    if (missing := _missing(driver)) is not None:
        raise ValueError(f"{NOT_YET}; besides, cuda cannot be used here: {missing}")
    raise ValueError(NOT_YET)


def _missing(driver: str) -> str | None:
    if (build := _cpu_build()) is not None:
        return f"torch {build} is built without CUDA: install the one from PyPI, or build the image for CUDA"
    try:
        library = ctypes.CDLL(driver)
    except OSError:
        return (
            f"there is no NVIDIA driver ({driver} is not found): install it, and give a container its GPU "
            "(NVIDIA Container Toolkit, docker run --gpus)"
        )
    failed, count = int(library.cuInit(0)), ctypes.c_int(0)
    failed = failed or int(library.cuDeviceGetCount(ctypes.byref(count)))
    if failed == NO_DEVICE or (not failed and count.value == 0):
        return "the NVIDIA driver shows no GPU: see nvidia-smi, CUDA_VISIBLE_DEVICES, and which the container was given"
    if failed:
        return f"the NVIDIA driver does not start (CUDA error {failed}): see nvidia-smi, and the kernel's log"
    return None


def _cpu_build() -> str | None:
    """The version of the torch that is installed, if it knows no CUDA."""
    found = find_spec("torch")
    if found is None or found.origin is None:
        return None
    try:
        text = Path(found.origin).with_name("version.py").read_text()
    except OSError:
        return None
    version = re.search(r"__version__ *= *['\"]([^'\"]+)", text)
    without = re.search(r"^cuda\b[^=\n]*= *None", text, re.MULTILINE)
    return version[1] if version and without else None
