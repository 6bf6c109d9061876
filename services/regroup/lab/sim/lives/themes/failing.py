"""Themes of what fails by itself: workers, networks, coordinators and their store, and groups that do not form.

Owns: these themes and their weights.
Refuses to know: what users do meanwhile (`asking`), how a fault is done, and which theme finds what.
"""

from regroup.lab.sim.lives.plan import Kind
from regroup.lab.sim.lives.themes.theme import (
    ANYTHING,
    BREAKS,
    CRASHES,
    CUTS,
    DEATHS,
    FOREVER,
    FORMING,
    LEADERS,
    MEETING,
    OTHERS,
    SAME,
    STEPPING,
    Some,
    Theme,
    by_halves,
    long_life,
)

FAILING = (
    *(Theme((Some((kind,), (1, 2, 4, 8)),)) for kind in (*ANYTHING, *FOREVER, Kind.FLIP)),  # one kind alone
    # anything
    Theme((Some(ANYTHING, (2, 4, 8, 12)),), weight=12),
    # trainers that hang until they are killed, machines that do not come back, among other deaths and cuts
    Theme(
        (
            Some(FOREVER, (1, 2), crowds=(1,), borders=(*STEPPING, *FORMING, "saving", "writing"), waits=0.9),
            Some((*DEATHS, *CUTS, *CRASHES, Kind.STOP), (0, 1, 2), borders=FORMING),
        ),
        weight=8,
        workers=(2, 3, 3, 4),
        spares=(0, 1, 1),
    ),
    # one trainer hangs for ever, and nothing else tells of it than that nothing goes on
    Theme(
        (Some((Kind.DEADLOCK, Kind.WEDGE), (1,), crowds=(1,), borders=(*STEPPING, *MEETING), waits=1.0, until=4.0),),
        weight=6,
        workers=(2, 2, 3),
        jobs=(1,),
        paces=(0.08, 0.2),
        steps=(6, 12),
    ),
    # who is to take the state stands still while generations pass
    Theme(
        (
            Some((Kind.KILL_TRAINER,), (1,), crowds=(1,), waits=0.0, since=2.0, until=3.0),
            Some((Kind.STALL,), (2, 3), (1.0, 2.0), (1, 2), ("connected",), waits=1.0, after=(0.1, 1.0)),
            Some(
                (Kind.BREAK, Kind.RAISE, Kind.KILL_TRAINER),
                (2, 4),
                borders=("connected", "regrouped", "stepping"),
                waits=0.7,
                after=(0.1, 3.0),
            ),
        ),
        weight=4,
        workers=(2, 3, 3),
        spares=(0,),
        jobs=(1,),
        paces=(0.08, 0.2),
        steps=(12,),
    ),
    # the whole cluster is stopped in good order, and started again
    Theme(
        (
            Some((Kind.LEAVE,), (1, 2), crowds=(4,), waits=0.0, since=3.0, until=8.0),
            Some((Kind.CRASH,), (0, 1), waits=0.0, after=(0.0, 0.4)),
            Some((Kind.LOSSY,), (0, 1), (12.0,), waits=0.0, after=(-1.0, 0.0)),
        ),
        weight=12,
        workers=(1, 2, 3),
        spares=(0,),
        jobs=(1,),
        paces=(0.15,),
        steps=(12,),
    ),
    # deaths and broken groups while a formation is made, again and again
    Theme((Some((*DEATHS, Kind.BREAK), (2, 4, 8), borders=FORMING, waits=0.9),), weight=6),
    # the members are cut off for longer than their lease, and others could take their place
    long_life(
        (
            Some((Kind.ISOLATE,), (1,), (2.5, 4.0, 10.0, 18.0), crowds=(2, 3), since=2.5, until=5.0),
            Some((*LEADERS, Kind.KILL_AGENT), (0, 1, 2), borders=FORMING, waits=0.3, until=7.0),
        ),
        weight=10,
        workers=(3, 4),
        spares=(1, 2),
    ),
    # the only member is cut off for longer than its lease, and another one takes its place
    long_life(
        (Some((Kind.ISOLATE,), (1,), (14.0, 18.0), (1,), STEPPING, waits=1.0, since=2.0, until=4.0),),
        weight=8,
        workers=(2,),
        spares=(1,),
        steps=(24,),
    ),
    # one is cut off but may still commit, all the others die; and perhaps nobody remembers when it was heard
    long_life(
        (
            Some((Kind.ISOLATE, Kind.SILENCE), (1,), (7.0, 10.0), crowds=(1,), waits=0.0, since=2.5, until=4.0),
            Some((Kind.KILL_TRAINER,), (1,), waits=0.0, after=(0.0, 1.0), whom=OTHERS),
            Some(CRASHES, (0, 1), waits=0.0, after=(0.0, 1.5)),
        ),
        weight=10,
        workers=(2, 2, 3),
        spares=(0,),
    ),
    # the same, and whoever leads then never heard of it
    long_life(
        (
            Some((Kind.ISOLATE,), (1,), (10.0,), crowds=(1,), waits=0.0, since=2.5, until=4.0),
            Some((Kind.KILL_TRAINER,), (1,), waits=0.0, after=(0.0, 0.1), whom=OTHERS),
            Some((Kind.CRASH,), (1,), waits=0.0, after=(0.15, 0.4)),
        ),
        weight=14,
        workers=(2, 2, 3),
        spares=(0,),
    ),
    # a coordinator stands still, nobody takes its place, and who is lent and not listed is away as it goes on
    Theme(
        (
            Some((Kind.FREEZE,), (1,), (6.0,), waits=0.0, since=0.52, until=0.9),
            Some((Kind.ISOLATE,), (1, 2), (1.5,), (1, 2), waits=0.0, after=(5.4, 6.2)),
        ),
        weight=14,
        workers=(2, 3),
        paces=(0.2, 0.4),
    ),
    # the task's report hangs on whoever saves for those that leave
    Theme(
        (
            Some((Kind.REPORT_HANGS,), (1,), (7.0, 18.0), (4,), ("saving",), waits=1.0, since=0.5, until=2.0),
            Some((Kind.HAND_OVER, Kind.DRAIN), (1,), crowds=(4,), waits=0.0, after=(0.0, 1.5)),
        ),
        weight=5,
        workers=(1, 2, 2),
        spares=(0,),
        jobs=(1,),
        steps=(4, 8),
    ),
    # the same; then its user stops the job, and the coordinator begins anew
    long_life(
        (
            Some((Kind.ISOLATE, Kind.SILENCE), (1,), (10.0, 18.0), crowds=(1,), waits=0.0, since=2.5, until=4.0),
            Some((Kind.KILL_TRAINER,), (1,), waits=0.0, after=(0.0, 1.0), whom=OTHERS),
            Some((Kind.STOP,), (1,), waits=0.0, after=(0.5, 2.0)),
            Some(CRASHES, (1,), waits=0.0, after=(1.0, 3.0)),
        ),
        weight=5,
        workers=(2, 2, 3),
        spares=(0,),
    ),
    # one falls out, the others go on; it comes back, and they fall out
    long_life(
        (
            Some(CUTS, (1, 2), (3.0, 5.0, 7.0), crowds=(1,), borders=STEPPING, waits=0.9, since=2.0, until=4.0),
            Some((*DEATHS, Kind.ISOLATE), (1, 2), (3.0, 7.0), crowds=(1, 2), borders=FORMING, since=3.0),
        ),
        weight=12,
        workers=(2, 3, 3, 4),
    ),
    # most are cut off while a round is under way, and the coordinator begins anew
    long_life(
        (
            Some(
                (Kind.ISOLATE,),
                (1,),
                (10.0, 18.0),
                crowds=(1, 2, 2),
                borders=("halt",),
                waits=1.0,
                since=2.5,
                until=4.0,
            ),
            Some(CRASHES, (1,), borders=("halt",), waits=1.0, since=2.5, until=4.0),
            Some((Kind.KILL_TRAINER, Kind.BREAK), (1, 2), crowds=(1,), waits=0.0, since=4.2, until=6.0),
        ),
        weight=8,
        workers=(2, 3, 3),
        spares=(0,),
    ),
    # one falls out and comes back, and whoever would give it the state dies before
    long_life(
        (
            Some((Kind.ISOLATE,), (1,), (2.0, 3.0, 4.0), crowds=(1,), borders=STEPPING, since=2.5, until=3.5),
            Some((Kind.BREAK,), (1,), crowds=(1,), borders=STEPPING, since=4.0, until=5.0),
            Some((Kind.KILL_AGENT,), (1, 2, 3), crowds=(1,), borders=MEETING, waits=1.0, since=5.0, until=9.0),
        ),
        weight=10,
        workers=(2, 2, 3),
        spares=(0,),
    ),
    # the same, more closely: the others die the moment that they are to give it the state
    long_life(
        (
            Some((Kind.ISOLATE,), (1,), (2.5, 3.0, 3.5), (1,), waits=0.0, since=3.0, until=4.0),
            Some((Kind.CUT,), (1,), waits=0.0, after=(0.0, 0.0), whom=SAME),
            Some((Kind.BREAK,), (1,), borders=("contributed",), waits=1.0, after=(0.05, 0.4), whom=OTHERS),
            Some((Kind.KILL_AGENT,), (1,), borders=("form",), waits=1.0, after=(1.5, 2.4), whom=OTHERS),
        ),
        weight=8,
        workers=(2, 2, 3),
        spares=(0,),
    ),
    # one falls out and comes back while all the others are cut off
    long_life(
        (
            Some((Kind.ISOLATE,), (1,), (4.0, 5.0, 6.0), crowds=(1,), borders=STEPPING, since=2.5, until=3.5),
            Some((Kind.KILL_AGENT, Kind.BREAK), (1,), crowds=(1,), borders=STEPPING, since=4.0, until=5.0),
            Some((Kind.ISOLATE,), (1,), (7.0, 10.0), crowds=(1, 2, 3), waits=0.0, since=4.5, until=6.0),
            Some(LEADERS, (0, 0, 1), since=4.5, until=10.0),
        ),
        weight=12,
        workers=(3, 3, 4),
        spares=(0,),
    ),
    # within one step: some have applied it and others have not
    Theme(
        (
            Some(CUTS, (1, 2), (1.0, 2.0, 3.0), crowds=(1,), borders=STEPPING, waits=0.9, since=2.0, until=4.0),
            Some((*DEATHS, *BREAKS), (1, 2, 3), borders=(*STEPPING, "halt"), waits=0.9, since=2.0),
        ),
        weight=12,
        workers=(2, 3, 3, 4),
        jobs=(1,),
        paces=(0.2, 0.4),
        steps=(4, 8),
    ),
    # one has applied a step that the others have not; it is cut off until they have applied it themselves
    Theme(
        (
            Some((Kind.ISOLATE,), (1,), (0.6, 0.9, 1.2), (1,), ("applying",), waits=1.0, since=1.5, until=4.0),
            Some((Kind.BREAK,), (1,), crowds=(4,), borders=("applying",), waits=1.0, after=(0.0, 0.0)),
            Some((Kind.CUT,), (1,), crowds=(1,), borders=("applying",), waits=1.0, after=(0.0, 0.0)),
            Some((*DEATHS, Kind.CRASH), (0, 0, 1), borders=FORMING, since=5.0, until=8.0),
            Some((Kind.CUT,), (1,), waits=0.0, since=9.0, until=9.0),  # until then, the pace stays what it is
        ),
        weight=18,
        workers=(2, 2, 3),
        spares=(0,),
        jobs=(1,),
        paces=(0.2, 0.4),
        steps=(8,),
    ),
    # orders and reports overtake each other while formations follow each other
    Theme(
        (
            Some((Kind.JUMBLED,), (1,), seconds=(18.0,), waits=0.0, until=2.0),
            Some((Kind.DOUBLING, Kind.SLOW), (0, 0, 1), seconds=(12.0,), waits=0.0, until=2.0),
            Some((*DEATHS, *BREAKS), (0, 2, 4), crowds=(1,), borders=("halt", "connecting"), waits=1.0),
            Some((Kind.KILL_TRAINER,), (8, 12), crowds=(1,), borders=("form",), waits=1.0),
        ),
        weight=18,
        workers=(2, 3, 3),
        jobs=(1,),
        paces=(0.08, 0.2),
        steps=(6, 12),
    ),
    # a coordinator is overtaken while it decides
    long_life(
        (
            Some((Kind.STORE_CUT, Kind.FREEZE), (1,), seconds=(1.5, 2.0, 4.0), waits=0.0, since=2.5, until=4.0),
            Some((Kind.KILL_TRAINER, Kind.CRASH_TRAINER), (1, 2), waits=0.0, after=(0.05, 1.0)),
            Some((Kind.DRAIN, Kind.PAUSE), (0, 1), crowds=(1,), waits=0.0, after=(0.0, 2.0)),
        ),
        weight=14,
        workers=(2, 3),
        spares=(0,),
    ),
    # somebody hangs in mid-training, and stays there
    long_life(
        (Some((Kind.HANG, Kind.WEDGE), (1, 2), seconds=(7.0, 18.0), waits=0.0, since=1.5, until=3.0),),
        weight=5,
        workers=(3,),
        spares=(0,),
    ),
    # one waits for its data, and the other dies after it answered
    long_life(
        (
            Some((Kind.STARVE,), (1,), seconds=(18.0,), crowds=(1,), waits=0.0, since=1.5, until=3.0),
            Some((Kind.KILL_TRAINER,), (1,), crowds=(1,), waits=0.0, after=(1.0, 2.0), whom=OTHERS),
        ),
        weight=14,
        workers=(2,),
        spares=(0,),
    ),
    # a store so slow that its coordinator decides about what is long over
    long_life(
        (
            Some((Kind.STORE_MUTE,), (1,), seconds=(7.0, 18.0), waits=0.0, since=0.5, until=3.0),
            Some((Kind.KILL_TRAINER,), (1,), waits=0.0, after=(0.05, 1.0)),
        ),
        weight=6,
        workers=(2, 3),
        spares=(0,),
    ),
    # two coordinators at once
    long_life(
        (
            Some((Kind.STORE_CUT, Kind.FREEZE), (1,), seconds=(2.0, 10.0, 18.0), until=3.0),
            Some((Kind.KILL_AGENT, Kind.CUT, Kind.KILL_TRAINER), (1, 2, 3), until=9.0),
        ),
        weight=8,
        workers=(2, 3, 4),
        spares=(0, 1),
    ),
    # the coordinator, or its store, dies while it decides about something
    Theme((Some(LEADERS, (1, 2, 4)), Some((*DEATHS, *CUTS), (1, 2, 4), borders=FORMING)), weight=8),
    # the only one that holds the state is slow to form, again and again
    long_life(
        (
            Some((Kind.KILL_AGENT,), (1,), crowds=(1,), waits=0.0, since=2.0, until=3.0),
            Some((Kind.STALL,), (1,), (3.5,), (1,), ("form",), waits=1.0, after=(0.1, 0.5), whom=OTHERS),
            Some((Kind.STALL,), (1,), (3.5,), (1,), ("form",), waits=1.0, after=(2.0, 4.0), whom=OTHERS),
        ),
        weight=8,
        workers=(2,),
        spares=(0,),
        steps=(24,),
    ),
    # the same one is slow to form, and once more after a while in which all went on
    long_life(
        (
            Some((Kind.BREAK,), (1,), crowds=(1,), waits=0.0, since=2.0, until=3.0),
            Some((Kind.STALL,), (1,), (3.3, 3.6), (1,), ("form",), waits=1.0, after=(0.0, 0.0), whom=SAME),
            Some((Kind.BREAK,), (1,), crowds=(1,), waits=0.0, after=(8.0, 9.0), whom=SAME),
            Some((Kind.STALL,), (1,), (3.3, 3.6), (1,), ("form",), waits=1.0, after=(7.9, 8.0), whom=SAME),
        ),
        weight=6,
        workers=(2, 2, 3),
        spares=(0,),
        steps=(24,),
    ),
    # whoever has answered dies before the others have
    long_life(
        (
            Some((*DEATHS, Kind.BREAK), (1, 2), crowds=(1,), borders=STEPPING, since=2.0, until=4.0),
            Some(CUTS, (1, 2), (0.5, 1.0, 2.0), crowds=(1,), borders=("halt",), waits=1.0, since=2.0, until=4.0),
            Some(DEATHS, (1, 2), crowds=(1,), borders=("halted",), waits=1.0, since=2.0, until=4.5),
        ),
        weight=8,
        workers=(2, 3, 3),
        spares=(0,),
    ),
    # one was given up, and is back with the last copy: the others lose theirs before or after
    long_life(
        (
            Some((Kind.ISOLATE,), (1,), (5.8, 6.2, 6.6), (1,), waits=0.0, since=2.5, until=3.5),
            Some((Kind.CUT,), (1,), waits=0.0, after=(0.0, 0.0), whom=SAME),
            Some((Kind.BREAK,), (1,), borders=("contributed",), waits=1.0, after=(0.05, 0.4), whom=OTHERS),
            Some((Kind.KILL_TRAINER, Kind.KILL_AGENT), (1,), waits=0.0, after=(5.6, 6.6), whom=OTHERS),
        ),
        weight=8,
        workers=(2, 2, 3),
        spares=(0,),
    ),
)

# A machine fails by halves: members do not form, or never get through a step, and in the end it is off.
BY_HALVES = (
    long_life(by_halves("connecting", range(1, 2)), workers=(2, 2, 3), spares=(0,)),
    long_life(by_halves("connecting", range(1, 3)), workers=(2, 3, 3), spares=(0,)),
    long_life(by_halves("contributed", range(2, 4)), workers=(2, 2, 3), spares=(0,)),
)
