"""The plans that seeds draw."""

from itertools import count, islice
from pathlib import Path
from typing import get_args

import pytest

import regroup.core
from regroup.core.workers import TrainerPhase
from regroup.lab.sim.lives import drawing
from regroup.lab.sim.lives.drawing import draw, rare_theme
from regroup.lab.sim.lives.reasons import sentences, unreached
from regroup.lab.sim.lives.themes import RARE
from regroup.lab.sim.model.trainer import Place


def test_each_border_that_a_fault_waits_for_is_one_that_a_life_reaches():
    """Else it would never strike, and nothing would tell: `written`, where a trainer stands, or a kind of note."""
    core = "".join(path.read_text() for path in Path(regroup.core.__file__).parent.glob("*.py"))
    waited_for = {fault.border for seed in range(3000) for fault in draw(seed).faults if fault.border is not None}
    unnoted = waited_for - {"written", *get_args(Place), *TrainerPhase}
    assert len(unnoted) > 10
    assert [border for border in sorted(unnoted) if f'"{border}"' not in core] == []


COMES_TO = (  # each of the rare themes, in their order
    "it did not form {} times in a row, and is seldom heard",
    "its code or data differ from those of whoever is back with the state",
    "waiting for its turn behind {} and {} more",
)


@pytest.mark.parametrize(("theme", "reason"), list(zip(RARE, COMES_TO, strict=True)), ids=COMES_TO)
def test_a_rare_theme_comes_to_what_it_is_there_for(theme, reason, lived):
    outcomes = [lived(seed) for seed in islice((seed for seed in count() if rare_theme(seed) is theme), 15)]
    assert [one.error for one in outcomes if one.error is not None] == []
    missing = unreached(said for one in outcomes for said in one.reasons)
    assert any(sentence.shown == reason for sentence in sentences().values())
    assert [name for name in missing if name.endswith(f"  {reason}")] == []


def test_few_lives_have_a_rare_theme_and_the_others_are_what_they_would_be_without(monkeypatch):
    rare = [seed for seed in range(2000) if rare_theme(seed) is not None]
    assert 10 < len(rare) < 60
    drawn = [draw(seed) for seed in range(400)]
    monkeypatch.setattr(drawing, "RARELY", 0.0)
    assert [seed for seed in range(400) if draw(seed) != drawn[seed]] == [seed for seed in rare if seed < 400]
