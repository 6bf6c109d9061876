"""Themes that few lives have: so much has to come together for what is decided in them that in others it hardly does.

Owns: these themes. Refuses to know: which lives have them (`drawing`), and what is decided then.
"""

from functools import partial

from regroup.lab.sim.lives.plan import Kind
from regroup.lab.sim.lives.themes.theme import DEATHS, LEADERS, OTHERS, SAME, Some, Theme

ATTEMPTS = 6  # to form, each in vain; after fewer of them whoever kept the others waiting is left out


def seldom_heard() -> tuple[Some, ...]:
    """A step breaks. Whenever they form again, one promised, stands still as it connects, and is not heard then."""
    one = partial(Some, counts=(1,), crowds=(1,), waits=1.0, after=(0.0, 0.0), whom=SAME)
    broken = one((Kind.BREAK,), borders=("contributed",), since=1.0, until=2.0, arrival=1)
    each = ((Kind.STALL, 3.6), (Kind.SILENCE, 3.7))
    return (
        broken,
        *(
            one((kind,), seconds=(seconds,), borders=("connecting",), arrival=number)
            for number in range(1, ATTEMPTS + 1)
            for kind, seconds in each
        ),
    )


RARE = (
    # one promises each time, and keeps the others from forming
    Theme(seldom_heard(), workers=(2, 3, 3), spares=(0,), jobs=(1,), paces=(0.08, 0.2), steps=(24,), heals=30.0),
    # all but one begin anew, with other code, and it is cut off; it is back before anything could be formed without it
    Theme(
        (
            Some((Kind.ISOLATE,), (1,), (9.0, 9.5), (1,), waits=0.0, since=1.5, until=2.4),
            Some((Kind.CUT,), (1,), waits=0.0, after=(0.0, 0.0), whom=SAME),
            Some((Kind.AWAY,), (1,), (7.0, 7.4), waits=0.0, after=(0.0, 0.2), whom=OTHERS),
            Some((Kind.MISMATCH,), (1,), (18.0,), waits=0.0, after=(0.0, 0.2), whom=OTHERS),
        ),
        workers=(2,),
        spares=(0,),
        jobs=(1,),
        paces=(0.08, 0.2),
        steps=(24,),
        least=(2,),
    ),
    # more jobs than workers, each with one of them: somebody waits behind more than anybody names
    Theme(
        (
            Some((*DEATHS, *LEADERS), (0, 1, 2), (1.0, 3.0), (1,)),
            Some((Kind.CUT,), (1,), crowds=(1,), waits=0.0, since=10.0, until=10.0),  # the pace stays what it is
        ),
        workers=(4,),
        spares=(3,),
        jobs=(5,),
        paces=(0.14, 0.26),
        steps=(24,),
    ),
)
