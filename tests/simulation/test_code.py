"""A plan that is printed can be pasted."""

import runpy

import pytest

from regroup.lab.sim.lives.code import IMPORTS, as_code
from regroup.lab.sim.lives.drawing import draw
from regroup.lab.sim.lives.outcome import live


@pytest.mark.parametrize("seed", range(0, 60, 10))
def test_a_printed_plan_is_the_same_plan_and_the_same_life(seed, tmp_path, lived):
    plan = draw(seed)
    file = tmp_path / "pasted.py"
    file.write_text(f"{IMPORTS}\nplan = {as_code(plan)}\n")
    pasted = runpy.run_path(str(file))["plan"]
    assert pasted == plan
    assert live(pasted) == lived(seed)


def test_what_has_its_default_value_is_left_out():
    text = as_code(draw(0))
    assert "max_restarts=1000" in text or "max_restarts=1," in text
    assert "micro_batch" not in text
    assert "None" not in text
