"""Which faults meet in a life. Uniform draws would hardly ever bring together what a hole needs.

Most faults wait for a border of the protocol, because that is where the holes are.
"""

from regroup.lab.sim.lives.themes.asking import ASKING
from regroup.lab.sim.lives.themes.failing import BY_HALVES, FAILING
from regroup.lab.sim.lives.themes.rare import RARE

THEMES = (*FAILING, *ASKING)

__all__ = ["BY_HALVES", "RARE", "THEMES"]
