"""The test of the simulator: bugs that are planted are found."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from regroup.lab.sim.lives.plan import Kind
from regroup.lab.sim.planted.bugs import BUGS
from regroup.lab.sim.planted.finding import find_planted


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_text_that_a_bug_changes_stands_in_the_code_once(bug):
    spec = find_spec(bug.module)
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text()
    assert source.count(bug.old) == 1
    compile(source.replace(bug.old, bug.new), spec.origin, "exec")
    assert bug.among is None or bug.among in Kind.__members__


@pytest.mark.cluster
@pytest.mark.timeout(1200)  # on a busy machine; about 90 seconds of two cores
def test_every_planted_bug_is_found_within_500_seeds_by_a_rule_that_says_what_is_wrong():
    found = list(find_planted(500, processes=os.cpu_count() or 1))
    assert len(found) == len(BUGS) >= 20
    assert [one.bug.name for one in found if one.seed is None] == []
    assert [one.bug.name for one in found if one.error is None or one.error.endswith(": ")] == []
