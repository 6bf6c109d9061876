"""`regroup chaos` as its users run it: real faults on real processes, and a report of them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from regroup.lab.chaos.cells import CI

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


def test_the_subset_for_ci_passes_and_is_reported(tmp_path: Path) -> None:
    figures, page = tmp_path / "figures.json", tmp_path / "page.html"
    command = [str(Path(sys.executable).parent / "regroup"), "chaos", "--subset", "ci"]
    command += ["--json", str(figures), "--html", str(page), "--data-dir", str(tmp_path / "data")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    told = json.loads(figures.read_text())["cells"]
    assert {f"{each['fault']}/{each['phase']}": each["outcome"] for each in told} == dict.fromkeys(CI, "passed")
    for each in told:
        seen = each["observed"]
        assert 0 <= seen["difference"] <= 1e-9
        assert (seen["lost"], seen["doubled"], seen["audit_faults"]) == (0, 0, [])
        assert seen["recovered"] > 0
    assert f"{len(CI)} cells passed, 0 failed" in ended.stdout
    assert page.read_text().count("class=passed") == len(CI)
