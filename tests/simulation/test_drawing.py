"""The plans that seeds draw."""

from pathlib import Path
from typing import get_args

import regroup.core
from regroup.core.workers import TrainerPhase
from regroup.lab.sim.lives.drawing import draw
from regroup.lab.sim.model.trainer import Place


def test_each_border_that_a_fault_waits_for_is_one_that_a_life_reaches():
    """Else it would never strike, and nothing would tell: `written`, where a trainer stands, or a kind of note."""
    core = "".join(path.read_text() for path in Path(regroup.core.__file__).parent.glob("*.py"))
    waited_for = {fault.border for seed in range(3000) for fault in draw(seed).faults if fault.border is not None}
    unnoted = waited_for - {"written", *get_args(Place), *TrainerPhase}
    assert len(unnoted) > 10
    assert [border for border in sorted(unnoted) if f'"{border}"' not in core] == []
