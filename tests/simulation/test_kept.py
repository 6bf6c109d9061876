"""Plans that are kept (`kept_plans`) break no rule any more, and each planted bug that found one of them still does."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from regroup.lab.sim.lives.outcome import live

from .kept_plans import MENDED, PLANTED

KEPT = PLANTED | MENDED
FINDINGS = Path(__file__).parents[2] / "docs" / "findings.md"
LOST = {5717, 102576}  # found before plans were kept


def test_of_each_seed_that_the_findings_name_the_plan_is_kept():
    named = re.findall(r"[Ss]eeds? ((?:\d+(?:,\s| and )?)+)", FINDINGS.read_text())
    seeds = {int(one) for text in named for one in re.findall(r"\d+", text)}
    assert len(seeds) > 30
    assert seeds - {plan.seed for plan in KEPT.values()} == LOST


@pytest.mark.parametrize("name", KEPT)
def test_what_once_broke_a_rule_breaks_none(name):
    outcome = live(KEPT[name])
    assert outcome.error is None
    assert outcome.met, "no fault struck: the plan says nothing any more, and a new one is needed"


@pytest.mark.parametrize("name", PLANTED)
def test_a_plan_that_a_planted_bug_found_dies_of_it_whatever_the_dice_say(name):
    """Were all plans survived, whatever is planted, they would prove nothing."""
    program = (
        "import runpy\n"
        "from regroup.lab.sim.planted.bugs import BUGS\n"
        "from regroup.lab.sim.planted.planting import plant\n"
        f"plant(next(bug for bug in BUGS if bug.name == {name!r}))\n"
        "from regroup.lab.sim.lives.outcome import live\n"
        f"kept = runpy.run_path({str(Path(__file__).with_name('kept_plans.py'))!r})['PLANTED']\n"
        f"print(live(kept[{name!r}]).error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith("AssertionError")
