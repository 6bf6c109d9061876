"""Themes of what users do, and of what their tasks do: stop, pause, hold, queue, save, raise, hang, differ.

Owns: these themes and their weights.
Refuses to know: what fails by itself (`failing`), how a fault is done, and which theme finds what.
"""

from regroup.lab.sim.lives.plan import Kind
from regroup.lab.sim.lives.themes.theme import (
    CUTS,
    DEATHS,
    DIES_PREPARING,
    FORMING,
    LEADERS,
    OTHERS,
    RESTS,
    SAME,
    STEPPING,
    USUAL,
    Some,
    Theme,
    long_life,
)

ASKING = (
    # anything, also the users' own doing, while several jobs share the workers
    Theme((Some(USUAL, (8, 16)),), weight=6, workers=(3, 4), spares=(1, 2), jobs=(2, 3)),
    # one worker has other code than the others
    Theme(
        (
            Some((Kind.MISMATCH,), (1,), (1.0, 3.0, 18.0), crowds=(1,), borders=("preparing",), since=0.0, until=0.1),
            Some(DEATHS, (0, 1, 4), borders=STEPPING),
        ),
        weight=4,
        workers=(2, 3),
        spares=(0,),
    ),
    # workers that cannot take part, or that agree with nobody
    Theme(
        (
            Some(
                (Kind.MISMATCH, Kind.UNPREPARED, Kind.HANG, Kind.CRASH_TRAINER),
                (1, 2, 4),
                seconds=(1.0, 3.0, 7.0),
                borders=("preparing",),
                waits=1.0,
                since=0.0,
                until=0.4,
            ),
            Some(DEATHS, (1, 2, 4), borders=STEPPING),
            Some((Kind.MISMATCH, Kind.UNPREPARED), (0, 1, 2), seconds=(3.0, 7.0), waits=0.5),
        ),
        weight=3,
        workers=(2, 3, 3),
    ),
    # held while all that hold the state are cut off for longer than their lease
    long_life(
        (
            Some((Kind.HOLD,), (1,), waits=0.0, since=3.0, until=4.0),
            Some((Kind.ISOLATE,), (1,), (10.0, 14.0), crowds=(3,), waits=0.0, since=2.6, until=3.4),
        ),
        weight=4,
        workers=(1, 2, 3),
        spares=(0,),
    ),
    # user code raises in the middle of a change, while a Halt is owed
    Theme(
        (
            Some((Kind.STALL,), (1,), (1.5,), (1,), ("applying",), waits=1.0, since=3.0, until=5.0),
            Some((Kind.KILL_TRAINER, Kind.BREAK), (1, 2), crowds=(1,), waits=0.0, after=(0.3, 0.7), whom=OTHERS),
            Some((Kind.RAISE,), (2,), crowds=(1,), waits=0.0, after=(0.5, 1.4), whom=SAME),
        ),
        weight=4,
        workers=(2, 3),
        spares=(0,),
        jobs=(1,),
        paces=(0.2, 0.4),
        steps=(12,),
    ),
    # one job waits for all workers, others come after it, and connections are cut for a moment
    Theme(
        (Some((Kind.CUT, Kind.ISOLATE), (0, 2, 4), (1.5, 2.5), (1, 2), waits=0.0, since=3.0, until=11.0),),
        weight=6,
        workers=(2, 3, 3),
        spares=(0, 0, 1),
        jobs=(3,),
        least=(1, 2, 3),
        paces=(0.1, 0.2),
        steps=(6, 12, 24),
    ),
    # the task's own errors
    Theme(
        (
            Some(
                (Kind.POISON, Kind.RAISE, Kind.DIVERGE, Kind.FLIP, Kind.BAD_SPEC),
                (1, 2, 4),
                seconds=(3.0, 7.0),
                borders=STEPPING,
                since=0.2,
            ),
            Some((*DEATHS, Kind.HANG), (0, 1, 4), (7.0, 18.0), borders=("stepping",), waits=1.0),
        ),
        weight=12,
        paces=(0.08, 0.2),
    ),
    # a pass raises, by chance
    Theme(
        (Some((Kind.RAISE,), (1, 2), crowds=(1,), borders=("stepping",), waits=1.0, since=1.0, until=3.0),),
        weight=3,
        workers=(2, 3),
        spares=(0,),
        jobs=(1,),
        paces=(0.08, 0.2),
        steps=(6, 12),
    ),
    # replicas that differ, and the loss of those that do not
    Theme(
        (
            Some((Kind.FLIP,), (2, 4), crowds=(1,), borders=("stepping",), waits=1.0, since=1.0, until=8.0),
            Some((Kind.KILL_TRAINER, Kind.KILL_AGENT, Kind.BREAK), (1, 2), borders=("halt", "form", "connected")),
        ),
        weight=12,
        workers=(2, 3, 3, 4),
        paces=(0.08, 0.2),
        steps=(6, 9),
    ),
    # user code raises while the state is being changed
    Theme(
        (Some((Kind.RAISE,), (2, 4), borders=("applying",), waits=1.0), Some((Kind.CUT, Kind.STALL), (0, 1, 2))),
        weight=6,
    ),
    # whoever writes the state is cut off, or slow, or dies
    Theme(
        (
            Some((Kind.STOP,), (0, 1), waits=0.0, since=2.0, until=4.0),
            Some(
                (Kind.ISOLATE, Kind.ISOLATE, Kind.STALL, Kind.HANG, Kind.UNWRITABLE, Kind.KILL_AGENT, *LEADERS),
                (1, 2, 3),
                seconds=(2.5, 3.0, 4.0, 5.0),
                crowds=(1,),
                borders=("saving", "writing", "writing"),
                waits=1.0,
                until=1.5,
            ),
        ),
        weight=8,
        workers=(2, 3),
        spares=(0,),
        paces=(0.02, 0.06),
        steps=(1, 2, 8),
    ),
    # one's disk refuses the state, and another's does not
    Theme(
        (
            Some((Kind.UNWRITABLE,), (1,), (7.0,), crowds=(1,), waits=0.0, until=1.0),
            Some((*RESTS, Kind.STOP, *CUTS), (0, 1), (1.0, 2.0), crowds=(1,), waits=0.0, since=1.0, until=3.0),
        ),
        weight=6,
        workers=(2, 3),
        spares=(0,),
        jobs=(1,),
        paces=(0.02, 0.06),
        steps=(1, 2, 8),
    ),
    # whoever wrote the state is heard again while another one is looked for
    Theme(
        (
            Some((Kind.ISOLATE,), (1,), (2.5, 3.0, 3.5), crowds=(1,), borders=("writing",), waits=1.0, until=0.6),
            Some((Kind.STOP, Kind.KILL_AGENT, Kind.CRASH), (0, 1), until=4.0),
        ),
        weight=6,
        workers=(2, 3),
        spares=(0,),
        jobs=(1,),
        paces=(0.02, 0.06),
        steps=(1, 2, 8),
    ),
    # a job rests and goes on, again and again, while its workers come and go
    Theme(
        (
            Some(RESTS, (1, 2, 4), borders=("started", "regrouped", "stepping", "halt", "paused", "resumed")),
            Some((*DEATHS, *CUTS, *LEADERS, Kind.BREAK), (0, 1, 2, 4), borders=(*FORMING, "saving", "writing")),
        ),
        weight=10,
        workers=(1, 2, 2, 3),
        paces=(0.08, 0.2),
        steps=(6, 12),
    ),
    # it pauses into a checkpoint, and who is to read it cannot, or dies
    Theme(
        (
            Some((Kind.PAUSE,), (1, 2), waits=0.0, since=1.5, until=5.0),
            Some(
                (Kind.UNREADABLE, *DEATHS, Kind.BREAK, Kind.STALL, Kind.ISOLATE, Kind.HANG),
                (1, 2, 3),
                seconds=(1.0, 3.0, 7.0),
                crowds=(1, 1, 2, 3),
                borders=("reading", "connected", "loaded", "form", "paused", "resumed", "writing"),
                waits=1.0,
                until=2.0,
            ),
        ),
        weight=8,
        workers=(2, 2, 3),
        spares=(0, 1, 1),
        jobs=(1, 2),
        paces=(0.08, 0.2),
        steps=(6, 12),
    ),
    # it is held, and those that hold its state fall out one after the other
    long_life(
        (
            Some((Kind.HOLD,), (1,), waits=0.0, since=2.0, until=4.0),
            Some((*DEATHS, *CUTS, Kind.DEADLOCK), (1, 2, 3), (3.0, 7.0, 18.0), (1, 1, 2), waits=0.0, after=(0.1, 4.0)),
            Some((*LEADERS, Kind.STOP), (0, 1), waits=0.3, since=3.0),
            Some((Kind.PAUSE,), (0, 1), waits=0.0, after=(0.5, 4.0)),
        ),
        weight=6,
        workers=(2, 3, 3),
    ),
    # jobs that keep what the others lack
    Theme(
        (
            Some((Kind.GONE,), (1, 2), crowds=(1,), waits=0.5, borders=STEPPING, until=4.0),
            Some((*DEATHS, *RESTS, Kind.CRASH), (0, 1, 2), until=8.0),
            Some((*CUTS, Kind.DEADLOCK, Kind.KILL_TRAINER), (0, 0, 1), (3.0, 7.0), (4,), ("yielding",), waits=1.0),
        ),
        weight=5,
        workers=(4,),
        spares=(2,),
        jobs=(2, 3),
        least=(2,),
        paces=(0.08, 0.2),
    ),
    # the task's own fault, before anybody trains: its process dies, or hangs, on every worker
    Theme(
        (
            Some(DIES_PREPARING, (1,), crowds=(1, 2, 3), borders=("preparing",), waits=1.0, since=0.0, until=0.4),
            Some(DIES_PREPARING, (2, 4), crowds=(1, 2), borders=("preparing",), waits=1.0, since=0.5, until=0.8),
            Some(DIES_PREPARING, (0, 2), crowds=(1, 2), borders=("preparing",), waits=1.0, since=6.0, until=8.0),
        ),
        weight=4,
        workers=(1, 2, 2, 3),
        jobs=(1,),
    ),
    # it goes on from a checkpoint, loses all that it trained since, and is to rest or to stop
    long_life(
        (
            Some((Kind.PAUSE,), (1,), waits=0.0, since=1.5, until=2.5),
            Some((Kind.KILL_TRAINER, Kind.KILL_AGENT), (1, 2), crowds=(3,), borders=STEPPING, since=5.0, until=8.0),
            Some((*RESTS, Kind.STOP), (1, 2), borders=("halt", "waiting", "rolled_back"), since=5.0, until=8.0),
        ),
        weight=4,
        workers=(1, 2, 3),
    ),
    # within one step it is to stop or to pause, and at once because somebody falls out
    Theme(
        (
            Some((Kind.STOP, *RESTS), (1,), waits=0.0, since=2.0, until=4.5),
            Some((Kind.BREAK,), (1,), crowds=(4,), borders=("applying",), waits=1.0, after=(-0.3, 0.3)),
            Some((*DEATHS, *CUTS), (0, 0, 1), (1.0, 2.0), (1,), STEPPING, waits=0.9, after=(-0.5, 0.5)),
        ),
        weight=16,
        workers=(2, 3, 3),
        spares=(0,),
        jobs=(1,),
        paces=(0.2, 0.4),
        steps=(8,),
    ),
)
