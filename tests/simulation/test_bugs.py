"""The test of the simulator: bugs that are planted are found."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import pytest

from regroup.lab.sim.lives.plan import Kind
from regroup.lab.sim.lives.sequences import SEQUENCES
from regroup.lab.sim.planted import finding
from regroup.lab.sim.planted.among import plans_with
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
    assert bug.among is None or bug.among in Kind.__members__ or bug.among in SEQUENCES


def test_no_two_bugs_are_called_alike():
    assert len({bug.name for bug in BUGS}) == len(BUGS)


CRASHES = {"a final state that nobody holds is to be saved"}  # its coordinator raises before any rule speaks

# What found each of them last, so that not all seeds before it are lived every time. Where one does not any more, all
# are; made by: regroup sim --plants --json tests/simulation/planted.json
KNOWN = json.loads(Path(__file__).with_name("planted.json").read_text())["planted"]


@pytest.mark.cluster
@pytest.mark.timeout(1200)  # where no seed is known any more, and the machine is busy
def test_every_planted_bug_is_found_within_500_lives_by_a_rule_that_says_what_is_wrong():
    found = list(find_planted(BUGS, 500, processes=os.cpu_count() or 1, known=KNOWN))
    assert len(found) == len(BUGS) >= 20
    assert [one.bug.name for one in found if one.seed is None] == []
    crashed = {one.bug.name for one in found if not re.match(r"(AssertionError|Stuck): .", one.error or "")}
    assert crashed <= CRASHES


@pytest.mark.timeout(300)  # it draws, and a busy machine takes longer
def test_what_found_a_bug_last_is_one_of_the_first_500_lives_that_are_looked_at_for_it():
    for among in {bug.among for bug in BUGS}:
        known = {KNOWN[bug.name] for bug in BUGS if bug.among == among and bug.name in KNOWN}
        first = {plan.seed for plan in islice(plans_with(among, range(max(known, default=0) + 1)), 500)}
        assert known <= first, among


def test_each_starred_rule_is_left_out_by_some_bug():
    rules = Path(__file__).parents[2].joinpath("docs", "protocol.md").read_text().split("## The rules")[1]
    starred = {int(number) for number in re.findall(r"^(\d)\. \*\*[^*]+\*\* ★", rules, re.MULTILINE)}
    assert starred == {bug.rule for bug in BUGS if bug.rule is not None} != set()


@pytest.mark.timeout(300)  # its lives would take an hour
def test_whoever_asks_for_no_more_bugs_waits_for_none(monkeypatch):
    began, popen = [], subprocess.Popen

    def begin(command, **how):
        found = {"seed": 0, "lives": 1, "error": "AssertionError: no"}
        program = f"print({json.dumps(found)!r})" if BUGS[0].name in command else "import time; time.sleep(3600)"
        began.append(popen([sys.executable, "-c", program], **how))
        return began[-1]

    monkeypatch.setattr(finding.subprocess, "Popen", begin)
    results = find_planted(BUGS, 500, processes=2)
    assert next(results).bug is BUGS[0]
    results.close()
    assert len(began) < len(BUGS)
    assert all(one.poll() is not None for one in began)


@pytest.mark.cluster
@pytest.mark.parametrize("known", [{}, {BUGS[0].name: 499}], ids=["none", "one"])
def test_a_bug_is_found_whatever_is_known_of_it(known):
    (one,) = find_planted(BUGS[:1], 500, processes=1, known=known)
    assert one.seed is not None
    assert one.lives <= 500
