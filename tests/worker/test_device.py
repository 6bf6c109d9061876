"""What is missing for a GPU. The drivers are real libraries with the two functions that are asked, made here."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from regroup.worker.device import expect_device

TORCH = "__version__ = '2.13.0+{build}'\ncuda: Optional[str] = {cuda}\nhip: Optional[str] = None\n"


@pytest.fixture
def torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Makes another torch the one that is installed: an agent looks, and imports none."""

    def install(build: str, cuda: str) -> None:
        package = tmp_path / "site" / "torch"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("raise AssertionError('an agent imports no torch')\n")
        (package / "version.py").write_text(TORCH.format(build=build, cuda=cuda))
        monkeypatch.delitem(sys.modules, "torch", raising=False)
        monkeypatch.syspath_prepend(str(package.parent))

    return install


@pytest.fixture
def driver(tmp_path: Path) -> Callable[[int, int], str]:
    def build(starts: int, devices: int) -> str:
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("there is no C compiler to make a driver with")
        source, library = tmp_path / "driver.c", tmp_path / f"libcuda-{starts}-{devices}.so"
        source.write_text(
            f"int cuInit(unsigned flags) {{ return {starts}; }}\n"
            f"int cuDeviceGetCount(int *count) {{ *count = {devices}; return 0; }}\n"
        )
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
        return str(library)

    return build


def refusal(device: str, driver: str) -> str:
    with pytest.raises(ValueError) as refused:
        expect_device(device, driver)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_a_cpu_is_always_there() -> None:
    assert expect_device("cpu", "no-such-driver.so") == "cpu"


@pytest.mark.parametrize("device", ["gpu", "", "cuda:1", "CUDA"])
def test_another_word_is_refused(device: str) -> None:
    assert refusal(device, "any") == f"must be cpu or cuda, not {device}"


def test_a_torch_without_cuda_is_named(torch: Callable[[str, str], None]) -> None:
    torch("cpu", "None")
    assert refusal("cuda", "any").startswith("must be cpu: training on cuda is not there yet")
    assert "cuda cannot be used here: torch 2.13.0+cpu is built without CUDA: install" in refusal("cuda", "any")


def test_a_driver_that_is_not_there_is_told(torch: Callable[[str, str], None]) -> None:
    torch("cu130", "'13.0'")
    said = refusal("cuda", "libno-such-driver.so.1")
    assert "there is no NVIDIA driver (libno-such-driver.so.1 is not found): install it" in said


@pytest.mark.parametrize(
    ("starts", "devices", "told"),
    [
        (100, 0, "the NVIDIA driver shows no GPU: see nvidia-smi, CUDA_VISIBLE_DEVICES"),
        (0, 0, "the NVIDIA driver shows no GPU: see nvidia-smi, CUDA_VISIBLE_DEVICES"),
        (999, 1, "the NVIDIA driver does not start (CUDA error 999): see nvidia-smi"),
    ],
)
def test_a_driver_without_a_gpu_and_one_that_does_not_start_are_told_apart(
    torch: Callable[[str, str], None], driver: Callable[[int, int], str], starts: int, devices: int, told: str
) -> None:
    torch("cu130", "'13.0'")
    assert told in refusal("cuda", driver(starts, devices))


def test_with_all_of_it_there_it_is_still_to_come(
    torch: Callable[[str, str], None], driver: Callable[[int, int], str]
) -> None:
    torch("cu130", "'13.0'")
    assert refusal("cuda", driver(0, 2)) == "must be cpu: training on cuda is not there yet"
