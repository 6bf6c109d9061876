"""Seeds that several tests look at are lived through once."""

from functools import cache

import pytest

from regroup.lab.sim.lives.drawing import draw
from regroup.lab.sim.lives.outcome import live


@pytest.fixture(scope="session")
def lived():
    """seed -> what came of its life, kept for whoever asks next."""
    return cache(lambda seed: live(draw(seed)))
