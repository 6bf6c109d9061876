"""Themes of lives: which faults meet in each. Uniform draws would hardly ever bring together what a hole needs.

Owns: the themes and their weights. Most faults wait for a border of the protocol, because that is where the holes are.
Refuses to know: how a plan is drawn from a theme (`drawing`), how a fault is done, and which theme finds what.
"""

from functools import partial

from regroup.lab.sim.lives.plan import Kind
from regroup.lab.sim.lives.theme import OTHERS, SAME, Some, Theme

_long = partial(Theme, jobs=(1,), paces=(0.1, 0.2), steps=(30, 50))  # a job that outlasts its faults
_DEATHS = (Kind.KILL_TRAINER, Kind.KILL_AGENT, Kind.LEAVE, Kind.CRASH_TRAINER)
_CUTS = (Kind.ISOLATE, Kind.DEAFEN, Kind.SILENCE, Kind.CUT, Kind.STALL)
_LEADERS = (Kind.CRASH, Kind.CRASH_UNSAVED, Kind.CRASH_UNSENT, Kind.FREEZE, Kind.STORE_CRASH)
_CRASHES = (Kind.CRASH, Kind.CRASH_UNSENT)
_FORMING = ("halt", "form", "connecting", "connected", "loaded", "started", "regrouped", "rolled_back")
_MEETING = ("form", "connecting", "connected")
_BREAKS = (Kind.BREAK, Kind.RAISE, Kind.HANG)
_STEPPING = ("stepping", "contributed", "applying")
_TASKS = (Kind.MISMATCH, Kind.UNPREPARED, Kind.BAD_SPEC, Kind.POISON, Kind.DIVERGE, Kind.FLIP)  # the users' own doing
_FOREVER = (Kind.DEADLOCK, Kind.WEDGE, Kind.GONE)  # what no healing mends
_UNPREPARED = (Kind.CRASH_TRAINER, Kind.DEADLOCK)
_RESTS = (Kind.PAUSE, Kind.HOLD)
_ANYTHING = tuple(kind for kind in Kind if kind not in (Kind.STOP, *_TASKS, *_FOREVER))
THEMES = (
    *(Theme((Some((kind,), (1, 2, 4, 8)),)) for kind in (*_ANYTHING, *_FOREVER, Kind.FLIP)),  # one kind alone
    # anything
    Theme((Some(_ANYTHING, (2, 4, 8, 16)),), weight=12),
    # anything, also the users' own doing, while several jobs share the workers
    Theme((Some(tuple(Kind), (8, 16)),), weight=6, workers=(3, 4), spares=(1, 2), jobs=(2, 3)),
    # trainers that hang until they are killed, machines that do not come back, among other deaths and cuts
    Theme(
        (
            Some(_FOREVER, (1, 2), crowds=(1,), borders=(*_STEPPING, *_FORMING, "saving", "writing"), waits=0.9),
            Some((*_DEATHS, *_CUTS, *_CRASHES, Kind.STOP), (0, 1, 2), borders=_FORMING),
        ),
        weight=8,
        workers=(2, 3, 3, 4),
        spares=(0, 1, 1),
    ),
    # one trainer hangs for ever, and nothing else tells of it than that nothing goes on
    Theme(
        (Some((Kind.DEADLOCK, Kind.WEDGE), (1,), crowds=(1,), borders=(*_STEPPING, *_MEETING), waits=1.0, until=4.0),),
        weight=6,
        workers=(2, 2, 3),
        jobs=(1,),
        paces=(0.06, 0.15),
        steps=(25, 60),
    ),
    # one worker has other code than the others
    Theme(
        (
            Some((Kind.MISMATCH,), (1,), (1.0, 3.0, 18.0), crowds=(1,), borders=("preparing",), since=0.0, until=0.1),
            Some(_DEATHS, (0, 1, 4), borders=_STEPPING),
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
            Some(_DEATHS, (1, 2, 4), borders=_STEPPING),
            Some((Kind.MISMATCH, Kind.UNPREPARED), (0, 1, 2), seconds=(3.0, 7.0), waits=0.5),
        ),
        weight=3,
        workers=(2, 3, 3),
    ),
    # held while all that hold the state are cut off for longer than their lease
    _long(
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
        steps=(40,),
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
        paces=(0.06, 0.15),
        steps=(60,),
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
        steps=(25, 60, 120),
    ),
    # the whole cluster is stopped in good order, and started again
    Theme(
        (
            Some((Kind.LEAVE,), (1, 2), crowds=(4,), waits=0.0, since=3.0, until=8.0),
            Some((Kind.CRASH,), (0, 1), waits=0.0, after=(0.0, 0.4)),
        ),
        weight=3,
        workers=(1, 2, 3),
        spares=(0,),
        jobs=(1,),
        paces=(0.1,),
        steps=(60,),
    ),
    # the task's own errors
    Theme(
        (
            Some(
                (Kind.POISON, Kind.RAISE, Kind.DIVERGE, Kind.FLIP, Kind.BAD_SPEC),
                (1, 2, 4),
                seconds=(3.0, 7.0),
                borders=_STEPPING,
                since=0.2,
            ),
            Some((*_DEATHS, Kind.HANG), (0, 1, 4), (7.0, 18.0), borders=("stepping",), waits=1.0),
        ),
        weight=4,
        paces=(0.06, 0.15),
    ),
    # replicas that differ, and the loss of those that do not
    Theme(
        (
            Some((Kind.FLIP,), (2, 4), crowds=(1,), borders=("stepping",), waits=1.0, since=1.0, until=8.0),
            Some((Kind.KILL_TRAINER, Kind.KILL_AGENT, Kind.BREAK), (1, 2), borders=("halt", "form", "connected")),
        ),
        weight=4,
        workers=(2, 3, 3, 4),
        paces=(0.06, 0.15),
        steps=(25, 40),
    ),
    # deaths and broken groups while a formation is made, again and again
    Theme((Some((*_DEATHS, Kind.BREAK), (2, 4, 8), borders=_FORMING, waits=0.9),), weight=6),
    # the members are cut off for longer than their lease, and others could take their place
    _long(
        (
            Some((Kind.ISOLATE,), (1,), (2.5, 4.0, 10.0, 18.0), crowds=(2, 3), since=2.5, until=5.0),
            Some((*_LEADERS, Kind.KILL_AGENT), (0, 1, 2), borders=_FORMING, waits=0.3, until=7.0),
        ),
        weight=10,
        workers=(3, 4),
        spares=(1, 2),
    ),
    # the only member is cut off for longer than its lease, and another one takes its place
    _long(
        (Some((Kind.ISOLATE,), (1,), (10.0, 18.0), (1,), _STEPPING, waits=1.0, since=2.0, until=4.0),),
        weight=8,
        workers=(2, 3),
        spares=(1, 2),
    ),
    # one is cut off but may still commit, all the others die; and perhaps nobody remembers when it was heard
    _long(
        (
            Some((Kind.ISOLATE, Kind.SILENCE), (1,), (7.0, 10.0), crowds=(1,), waits=0.0, since=2.5, until=4.0),
            Some((Kind.KILL_TRAINER,), (1,), waits=0.0, after=(0.0, 1.0), whom=OTHERS),
            Some(_CRASHES, (0, 1), waits=0.0, after=(0.0, 1.5)),
        ),
        weight=10,
        workers=(2, 2, 3),
        spares=(0,),
    ),
    # the same; then its user stops the job, and the coordinator begins anew
    _long(
        (
            Some((Kind.ISOLATE, Kind.SILENCE), (1,), (10.0, 18.0), crowds=(1,), waits=0.0, since=2.5, until=4.0),
            Some((Kind.KILL_TRAINER,), (1,), waits=0.0, after=(0.0, 1.0), whom=OTHERS),
            Some((Kind.STOP,), (1,), waits=0.0, after=(0.5, 2.0)),
            Some(_CRASHES, (1,), waits=0.0, after=(1.0, 3.0)),
        ),
        weight=5,
        workers=(2, 2, 3),
        spares=(0,),
    ),
    # one falls out, the others go on; it comes back, and they fall out
    _long(
        (
            Some(_CUTS, (1, 2), (3.0, 5.0, 7.0), crowds=(1,), borders=_STEPPING, waits=0.9, since=2.0, until=4.0),
            Some((*_DEATHS, Kind.ISOLATE), (1, 2), (3.0, 7.0), crowds=(1, 2), borders=_FORMING, since=3.0),
        ),
        weight=12,
        workers=(2, 3, 3, 4),
    ),
    # most are cut off while a round is under way, and the coordinator begins anew
    _long(
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
            Some(_CRASHES, (1,), borders=("halt",), waits=1.0, since=2.5, until=4.0),
            Some((Kind.KILL_TRAINER, Kind.BREAK), (1, 2), crowds=(1,), waits=0.0, since=4.2, until=6.0),
        ),
        weight=8,
        workers=(2, 3, 3),
        spares=(0,),
    ),
    # one falls out and comes back, and whoever would give it the state dies before
    _long(
        (
            Some((Kind.ISOLATE,), (1,), (2.0, 3.0, 4.0), crowds=(1,), borders=_STEPPING, since=2.5, until=3.5),
            Some((Kind.BREAK,), (1,), crowds=(1,), borders=_STEPPING, since=4.0, until=5.0),
            Some((Kind.KILL_AGENT,), (1, 2, 3), crowds=(1,), borders=_MEETING, waits=1.0, since=5.0, until=9.0),
        ),
        weight=10,
        workers=(2, 2, 3),
        spares=(0,),
    ),
    # the same, more closely: the others die the moment that they are to give it the state
    _long(
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
    _long(
        (
            Some((Kind.ISOLATE,), (1,), (4.0, 5.0, 6.0), crowds=(1,), borders=_STEPPING, since=2.5, until=3.5),
            Some((Kind.KILL_AGENT, Kind.BREAK), (1,), crowds=(1,), borders=_STEPPING, since=4.0, until=5.0),
            Some((Kind.ISOLATE,), (1,), (7.0, 10.0), crowds=(1, 2, 3), waits=0.0, since=6.0, until=9.0),
            Some(_LEADERS, (0, 0, 1), since=6.0, until=12.0),
        ),
        weight=12,
        workers=(3, 3, 4),
        spares=(0,),
    ),
    # within one step: some have applied it and others have not
    Theme(
        (
            Some(_CUTS, (1, 2), (1.0, 2.0, 3.0), crowds=(1,), borders=_STEPPING, waits=0.9, since=2.0, until=4.0),
            Some((*_DEATHS, *_BREAKS), (1, 2, 3), borders=(*_STEPPING, "halt"), waits=0.9, since=2.0),
        ),
        weight=12,
        workers=(2, 3, 3, 4),
        jobs=(1,),
        paces=(0.2, 0.4),
        steps=(12, 24),
    ),
    # one has applied a step that the others have not; it is cut off until they have applied it themselves
    Theme(
        (
            Some((Kind.ISOLATE,), (1,), (0.6, 0.9, 1.2), (1,), ("applying",), waits=1.0, since=3.0, until=6.0),
            Some((Kind.BREAK,), (1,), crowds=(4,), borders=("applying",), waits=1.0, after=(0.0, 0.0)),
            Some((Kind.CUT,), (1,), crowds=(1,), borders=("applying",), waits=1.0, after=(0.0, 0.0)),
            Some((*_DEATHS, Kind.CRASH), (0, 0, 1), borders=_FORMING, since=8.0),
            Some((Kind.CUT,), (1,), waits=0.0, since=12.0, until=12.0),  # until then, the pace stays what it is
        ),
        weight=8,
        workers=(2, 2, 3),
        spares=(0,),
        jobs=(1,),
        paces=(0.2, 0.4),
        steps=(24,),
    ),
    # user code raises while the state is being changed
    Theme(
        (Some((Kind.RAISE,), (2, 4), borders=("applying",), waits=1.0), Some((Kind.CUT, Kind.STALL), (0, 1, 2))),
        weight=6,
    ),
    # orders and reports overtake each other while formations follow each other
    Theme(
        (
            Some((Kind.JUMBLED,), (1,), seconds=(18.0,), waits=0.0, until=2.0),
            Some((Kind.DOUBLING, Kind.SLOW), (0, 0, 1), seconds=(12.0,), waits=0.0, until=2.0),
            Some((*_DEATHS, *_BREAKS), (0, 2, 4), crowds=(1,), borders=("halt", "connecting"), waits=1.0),
            Some((Kind.KILL_TRAINER,), (8, 12), crowds=(1,), borders=("form",), waits=1.0),
        ),
        weight=12,
        workers=(2, 3, 3),
        jobs=(1,),
        paces=(0.06, 0.15),
        steps=(25, 60),
    ),
    # a coordinator is overtaken while it decides
    _long(
        (
            Some((Kind.STORE_CUT, Kind.FREEZE), (1,), seconds=(1.5, 2.0, 4.0), waits=0.0, since=2.5, until=4.0),
            Some((Kind.KILL_TRAINER, Kind.CRASH_TRAINER), (1, 2), waits=0.0, after=(0.05, 1.0)),
        ),
        weight=6,
        workers=(2, 3),
        spares=(0,),
    ),
    # two coordinators at once
    _long(
        (
            Some((Kind.STORE_CUT, Kind.FREEZE), (1,), seconds=(2.0, 10.0, 18.0), until=3.0),
            Some((Kind.KILL_AGENT, Kind.CUT, Kind.KILL_TRAINER), (1, 2, 3), until=9.0),
        ),
        weight=8,
        workers=(2, 3, 4),
        spares=(0, 1),
    ),
    # the coordinator, or its store, dies while it decides about something
    Theme((Some(_LEADERS, (1, 2, 4)), Some((*_DEATHS, *_CUTS), (1, 2, 4), borders=_FORMING)), weight=8),
    # whoever writes the state is cut off, or slow, or dies
    Theme(
        (
            Some((Kind.STOP,), (0, 1), waits=0.0, since=2.0, until=4.0),
            Some(
                (Kind.ISOLATE, Kind.ISOLATE, Kind.STALL, Kind.HANG, Kind.UNWRITABLE, Kind.KILL_AGENT, *_LEADERS),
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
        steps=(1, 6, 25),
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
        steps=(1, 6, 25),
    ),
    # a job rests and goes on, again and again, while its workers come and go
    Theme(
        (
            Some(_RESTS, (1, 2, 4), borders=("started", "regrouped", "stepping", "halt", "paused", "resumed")),
            Some((*_DEATHS, *_CUTS, *_LEADERS, Kind.BREAK), (0, 1, 2, 4), borders=(*_FORMING, "saving", "writing")),
        ),
        weight=10,
        workers=(1, 2, 2, 3),
        paces=(0.06, 0.15),
        steps=(25, 60),
    ),
    # it pauses into a checkpoint, and who is to read it cannot, or dies
    Theme(
        (
            Some((Kind.PAUSE,), (1, 2), waits=0.0, since=1.5, until=5.0),
            Some(
                (Kind.UNREADABLE, *_DEATHS, Kind.BREAK, Kind.STALL, Kind.ISOLATE, Kind.HANG),
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
        paces=(0.06, 0.15),
        steps=(25, 60),
    ),
    # it is held, and those that hold its state fall out one after the other
    _long(
        (
            Some((Kind.HOLD,), (1,), waits=0.0, since=2.0, until=4.0),
            Some(
                (*_DEATHS, *_CUTS, Kind.DEADLOCK), (1, 2, 3), (3.0, 7.0, 18.0), (1, 1, 2), waits=0.0, after=(0.1, 4.0)
            ),
            Some((*_LEADERS, Kind.PAUSE, Kind.STOP), (0, 1), waits=0.3, since=3.0),
        ),
        weight=6,
        workers=(2, 3, 3),
    ),
    # jobs that keep what the others lack
    Theme(
        (
            Some((Kind.GONE,), (1, 2), crowds=(1,), waits=0.5, borders=_STEPPING, until=4.0),
            Some((*_DEATHS, *_RESTS, Kind.CRASH), (0, 1, 2), until=8.0),
        ),
        weight=5,
        workers=(4,),
        spares=(2,),
        jobs=(2, 3),
        least=(2,),
        paces=(0.06, 0.15),
    ),
    # the task's own fault, before anybody trains: its process dies, or hangs, on every worker
    Theme(
        (
            Some(_UNPREPARED, (1,), crowds=(1, 2, 3), borders=("preparing",), waits=1.0, since=0.0, until=0.4),
            Some(_UNPREPARED, (2, 4), crowds=(1, 2), borders=("preparing",), waits=1.0, since=0.5, until=0.8),
            Some(_UNPREPARED, (0, 2), crowds=(1, 2), borders=("preparing",), waits=1.0, since=6.0, until=8.0),
        ),
        weight=4,
        workers=(1, 2, 2, 3),
        jobs=(1,),
    ),
    # it goes on from a checkpoint, loses all that it trained since, and is to rest or to stop
    _long(
        (
            Some((Kind.PAUSE,), (1,), waits=0.0, since=1.5, until=2.5),
            Some((Kind.KILL_TRAINER, Kind.KILL_AGENT), (1, 2), crowds=(3,), borders=_STEPPING, since=5.0, until=8.0),
            Some((*_RESTS, Kind.STOP), (1, 2), borders=("halt", "waiting", "rolled_back"), since=5.0, until=8.0),
        ),
        weight=4,
        workers=(1, 2, 3),
    ),
    # within one step it is to stop or to pause, and at once because somebody falls out
    Theme(
        (
            Some((Kind.STOP, *_RESTS), (1,), waits=0.0, since=4.0, until=7.0),
            Some((Kind.BREAK,), (1,), crowds=(4,), borders=("applying",), waits=1.0, after=(-0.3, 0.3)),
            Some((*_DEATHS, *_CUTS), (0, 0, 1), (1.0, 2.0), (1,), _STEPPING, waits=0.9, after=(-0.5, 0.5)),
        ),
        weight=8,
        workers=(2, 3, 3),
        spares=(0,),
        jobs=(1,),
        paces=(0.2, 0.4),
        steps=(24,),
    ),
    # the only one that holds the state is slow to form, again and again
    _long(
        (
            Some((Kind.KILL_AGENT,), (1,), crowds=(1, 2), waits=0.0, since=2.0, until=3.0),
            Some((Kind.STALL,), (2, 3), (3.5, 4.0), (1,), ("connecting", "connected"), waits=1.0, after=(0.3, 3.0)),
        ),
        weight=4,
        workers=(2, 2, 3),
        spares=(0,),
    ),
    # whoever has answered dies before the others have
    _long(
        (
            Some((*_DEATHS, Kind.BREAK), (1, 2), crowds=(1,), borders=_STEPPING, since=2.0, until=4.0),
            Some(_CUTS, (1, 2), (0.5, 1.0, 2.0), crowds=(1,), borders=("halt",), waits=1.0, since=2.0, until=4.0),
            Some(_DEATHS, (1, 2), crowds=(1,), borders=("halted",), waits=1.0, since=2.0, until=4.5),
        ),
        weight=8,
        workers=(2, 3, 3),
        spares=(0,),
    ),
    # one was given up, and is back with the last copy: the others lose theirs before or after
    _long(
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
