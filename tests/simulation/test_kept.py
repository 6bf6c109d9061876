"""Plans that once broke a rule, each cut down to the faults that matter: the code as it is survives them.

`regroup sim --seed N` prints such a plan for a seed that fails: what a seed draws may change, a plan stays.
"""

import subprocess
import sys

import pytest

from regroup.core.cluster import Policy
from regroup.core.jobs import JobSpec
from regroup.lab.sim.lives.outcome import live
from regroup.lab.sim.lives.plan import Fault, Kind, Plan
from regroup.lab.sim.planted.bugs import BUGS

PLANTED = {  # found by the planted bug of this name
    "a torn state is answered": Plan(
        seed=51,
        workers=3,
        jobs=(JobSpec(task="digits", steps=60, global_batch=8, shards=4, step_timeout=4.0, max_restarts=1000),),
        policy=Policy(
            heartbeat_interval=0.5,
            detached_limit=5.0,
            detached_margin=1.0,
            leader_lease=1.0,
            halt_limit=2.0,
            form_limit=3.0,
            absent_limit=5.0,
            save_retry=0.5,
            error_limit=0,
        ),
        faults=(Fault(kind=Kind.RAISE, workers=(0, 2, 1), at=6.6, border="applying"),),
        skews=(819038.0, 592127.0, 174860.0, 986204.0),
        drifts=(-0.001, -0.01, -0.001, -0.002),
        pace=0.06,
    ),
    "the lease is not looked at": Plan(
        seed=16,
        workers=3,
        jobs=(JobSpec(task="digits", steps=30, global_batch=8, shards=4, step_timeout=4.0, max_restarts=1000),),
        policy=Policy(
            heartbeat_interval=0.5,
            detached_limit=5.0,
            detached_margin=1.0,
            leader_lease=1.0,
            halt_limit=2.0,
            form_limit=3.0,
            absent_limit=5.0,
            save_retry=0.5,
            error_limit=1000,
        ),
        faults=(Fault(kind=Kind.ISOLATE, workers=(0,), at=3.9, border="stepping", seconds=10.0),),
        skews=(985430.0, 782651.0, 361783.0, 420281.0),
        drifts=(-0.008, -0.0, 0.0, -0.007),
        pace=0.2,
    ),
    "the highest step leads, whatever its generation": Plan(
        seed=94,
        workers=2,
        jobs=(
            JobSpec(
                task="digits",
                steps=50,
                global_batch=8,
                shards=4,
                max_workers=2,
                step_timeout=4.0,
                max_restarts=1,
            ),
        ),
        policy=Policy(
            heartbeat_interval=0.5,
            detached_limit=5.0,
            detached_margin=1.0,
            leader_lease=1.0,
            halt_limit=2.0,
            form_limit=3.0,
            absent_limit=5.0,
            save_retry=0.5,
            error_limit=1000,
        ),
        faults=(
            Fault(kind=Kind.ISOLATE, workers=(1,), at=3.2976834640931965, seconds=2.0),
            Fault(kind=Kind.BREAK, workers=(0,), at=4.667444400209394, border="applying"),
        ),
        skews=(571836.0, 205393.0, 472747.0),
        drifts=(0.004, -0.006, 0.008),
        pace=0.2,
    ),
    "an evicted saver moves the checkpoint": Plan(
        seed=152,
        workers=3,
        jobs=(
            JobSpec(
                task="digits",
                steps=1,
                global_batch=8,
                shards=4,
                max_workers=3,
                step_timeout=4.0,
                max_restarts=1000,
            ),
        ),
        policy=Policy(
            heartbeat_interval=0.5,
            detached_limit=5.0,
            detached_margin=1.0,
            leader_lease=1.0,
            halt_limit=2.0,
            form_limit=3.0,
            absent_limit=5.0,
            forget_limit=1.5,
            save_retry=0.5,
            error_limit=0,
        ),
        faults=(Fault(kind=Kind.ISOLATE, workers=(2,), at=0.5, border="writing", seconds=3.5),),
        skews=(122933.0, 66176.0, 182972.0, 434798.0),
        drifts=(-0.003, -0.006, 0.007, -0.006),
        pace=0.06,
    ),
    "an anchor below the base will do": Plan(
        seed=142,
        workers=3,
        jobs=(
            JobSpec(
                task="digits",
                steps=30,
                global_batch=8,
                shards=4,
                max_workers=3,
                step_timeout=4.0,
                max_restarts=1000,
            ),
        ),
        policy=Policy(
            heartbeat_interval=0.5,
            detached_limit=5.0,
            detached_margin=1.0,
            leader_lease=1.0,
            halt_limit=2.0,
            form_limit=3.0,
            absent_limit=5.0,
            save_retry=0.5,
            error_limit=0,
        ),
        faults=(
            Fault(kind=Kind.ISOLATE, workers=(2,), at=3.3289963385948567, seconds=3.0),
            Fault(kind=Kind.BREAK, workers=(0, 1), at=3.5550756648300066, border="contributed"),
            Fault(kind=Kind.KILL_AGENT, workers=(0, 1), at=5.727575797785553, border="form"),
        ),
        skews=(235060.0, 619837.0, 286038.0, 126857.0),
        drifts=(-0.0, 0.009, -0.003, 0.0),
        pace=0.1,
    ),
}
MENDED = {  # what the code did once
    "a stop that saved an older state did not say that it goes back": Plan(
        seed=2135,
        workers=2,
        jobs=(
            JobSpec(
                task="digits",
                steps=50,
                global_batch=8,
                shards=4,
                max_workers=2,
                step_timeout=4.0,
                max_restarts=1000,
            ),
        ),
        policy=Policy(
            heartbeat_interval=0.5,
            detached_limit=5.0,
            detached_margin=1.0,
            leader_lease=1.0,
            halt_limit=2.0,
            form_limit=3.0,
            absent_limit=5.0,
            forget_limit=1.5,
            save_retry=0.5,
            error_limit=1000,
        ),
        faults=(
            Fault(kind=Kind.ISOLATE, workers=(1,), at=3.430248902927438, seconds=3.5),
            Fault(kind=Kind.CUT, workers=(1,), at=3.430248902927438),
            Fault(kind=Kind.BREAK, workers=(0,), at=3.6180373583344947, border="contributed"),
            Fault(kind=Kind.KILL_AGENT, workers=(0,), at=5.365171643880149, border="form"),
            Fault(kind=Kind.STOP, workers=(0,), at=8.12133322220973),
        ),
        skews=(801392.5743133924, 543997.8488502359, 5251.775687418525),
        drifts=(-0.00714312729946945, -0.009521729165151793, -0.006387033059373793),
        pace=0.2,
    ),
    "a stop did not wait for the answer of the last one that held a state": Plan(
        seed=53652,
        workers=2,
        jobs=(
            JobSpec(
                task="digits",
                steps=30,
                global_batch=8,
                shards=4,
                max_workers=2,
                step_timeout=4.0,
                max_restarts=1,
            ),
        ),
        policy=Policy(
            heartbeat_interval=0.5,
            detached_limit=5.0,
            detached_margin=1.0,
            leader_lease=1.0,
            halt_limit=2.0,
            form_limit=3.0,
            absent_limit=5.0,
            save_retry=0.5,
            error_limit=1000,
        ),
        faults=(
            Fault(kind=Kind.SLOW, workers=(0,), at=2.790038319113592, seconds=12.0),
            Fault(kind=Kind.ISOLATE, workers=(1,), at=3.3304392153204425, seconds=2.5),
            Fault(kind=Kind.CUT, workers=(1,), at=3.3304392153204425),
            Fault(kind=Kind.KILL_AGENT, workers=(0,), at=4.9214141308611925, border="form"),
            Fault(kind=Kind.STOP, workers=(0,), at=7.297508204599481, border="idle"),
        ),
        skews=(928734.405594966, 128069.28511602123, 549628.3060543486),
        drifts=(-0.002673103670088681, 0.007311040980905856, 0.0093979826976979),
        pace=0.2,
    ),
    "all was begun anew while the last one that held a state was back, and not asked yet": Plan(
        seed=11703,
        workers=3,
        jobs=(
            JobSpec(
                task="digits",
                epochs=1,
                global_batch=8,
                shards=4,
                max_workers=2,
                step_timeout=4.0,
                max_restarts=1000,
            ),
        ),
        policy=Policy(
            heartbeat_interval=0.5,
            detached_limit=5.0,
            detached_margin=1.0,
            leader_lease=1.0,
            halt_limit=2.0,
            form_limit=3.0,
            absent_limit=5.0,
            save_retry=0.5,
            error_limit=0,
        ),
        faults=(
            Fault(kind=Kind.ISOLATE, workers=(1,), at=2.880602448478628, seconds=4.0),
            Fault(kind=Kind.KILL_AGENT, workers=(1,), at=6.524749305418101, border="connecting"),
        ),
        skews=(976786.4116810806, 152159.31253873583, 141997.88411625335, 287584.23603964667),
        drifts=(0.0022733764670441, -0.0022435223129162376, 0.0052027894070406245, -0.006529130073005354),
        pace=0.2,
    ),
    "steps were shown that only an older state had, before it was saved": Plan(
        seed=23228,
        workers=4,
        jobs=(
            JobSpec(
                task="digits",
                steps=25,
                global_batch=8,
                shards=4,
                max_workers=3,
                step_timeout=4.0,
                max_restarts=1,
            ),
            JobSpec(
                task="digits",
                epochs=1,
                global_batch=8,
                shards=4,
                max_workers=3,
                step_timeout=4.0,
                max_restarts=1000,
            ),
            JobSpec(
                task="digits",
                steps=60,
                global_batch=8,
                shards=4,
                min_workers=2,
                max_workers=3,
                step_timeout=4.0,
                max_restarts=1000,
            ),
        ),
        policy=Policy(
            heartbeat_interval=0.5,
            detached_limit=5.0,
            detached_margin=1.0,
            leader_lease=1.0,
            halt_limit=2.0,
            form_limit=3.0,
            absent_limit=5.0,
            save_retry=0.5,
            error_limit=1000,
        ),
        faults=(
            Fault(kind=Kind.STORE_AWAY, workers=(3,), at=3.737508600228884, seconds=3.0),
            Fault(kind=Kind.SILENCE, workers=(3,), at=4.249574121917022, seconds=3.0),
            Fault(kind=Kind.KILL_TRAINER, workers=(1,), at=4.614377247530092, border="connecting"),
            Fault(kind=Kind.ISOLATE, workers=(0, 1), at=4.898643826172391, seconds=18.0),
            Fault(kind=Kind.JUMBLED, workers=(2,), at=6.072179049823029, seconds=1.0),
            Fault(kind=Kind.CRASH, workers=(0,), at=7.380984449352651, border="connecting"),
            Fault(kind=Kind.DOUBLING, workers=(1,), at=7.637047274709742, seconds=0.3),
            Fault(kind=Kind.HANG, workers=(3, 1, 2), at=10.33419173625929, border="saving", seconds=18.0),
            Fault(kind=Kind.KILL_TRAINER, workers=(3,), at=10.79807263366512),
        ),
        skews=(847813.5666106435, 264032.5171013881, 966632.7169301192, 991442.8051542208, 204343.33751495494),
        drifts=(
            -0.00524969780775235,
            0.006761662282537462,
            0.0038219076303635073,
            0.000518929262592142,
            0.007632274397331997,
        ),
        pace=0.02,
    ),
    "two jobs kept what the other lacked, for ever": Plan(
        seed=88446,
        workers=4,
        jobs=(
            JobSpec(
                task="digits",
                epochs=1,
                global_batch=8,
                shards=4,
                min_workers=2,
                max_workers=2,
                step_timeout=4.0,
                max_restarts=1,
            ),
            JobSpec(
                task="digits",
                steps=60,
                global_batch=8,
                shards=4,
                min_workers=2,
                max_workers=2,
                step_timeout=4.0,
                max_restarts=1000,
            ),
        ),
        policy=Policy(
            heartbeat_interval=0.5,
            detached_limit=5.0,
            detached_margin=1.0,
            leader_lease=1.0,
            halt_limit=2.0,
            form_limit=3.0,
            absent_limit=5.0,
            save_retry=0.5,
            error_limit=1000,
        ),
        faults=(
            Fault(kind=Kind.GONE, workers=(1,), at=1.7632319322087784),
            Fault(kind=Kind.GONE, workers=(3,), at=2.458553879860527),
        ),
        skews=(736859.9976752758, 326107.74333932303, 502083.2987815562, 831602.5133209366, 952308.8644079234),
        drifts=(
            0.008029357619881805,
            0.008070039860449048,
            0.0030204077102581658,
            -0.003176255792911249,
            -0.0029670486206390878,
        ),
        pace=0.15,
    ),
    "a stop showed more steps than its checkpoint has": Plan(
        seed=2371,
        workers=3,
        jobs=(
            JobSpec(
                task="digits",
                steps=50,
                global_batch=8,
                shards=4,
                min_workers=2,
                max_workers=3,
                step_timeout=4.0,
                max_restarts=1000,
            ),
        ),
        policy=Policy(
            heartbeat_interval=0.5,
            detached_limit=5.0,
            detached_margin=1.0,
            leader_lease=1.0,
            prepare_limit=6.0,
            halt_limit=2.0,
            form_limit=3.0,
            absent_limit=5.0,
            save_retry=0.5,
            read_retry=1.5,
            error_limit=1000,
        ),
        faults=(
            Fault(kind=Kind.PAUSE, workers=(2,), at=1.5731366243561369),
            Fault(kind=Kind.KILL_AGENT, workers=(2, 0, 1), at=7.317818454153828, border="applying"),
            Fault(kind=Kind.KILL_TRAINER, workers=(1, 2, 0), at=7.577554844747262, border="stepping"),
            Fault(kind=Kind.STOP, workers=(1,), at=7.791768538005716, border="halt"),
        ),
        skews=(922343.0863386535, 488021.4265803967, 614527.9785272621, 953855.1881335264),
        drifts=(0.0032954057237816903, -0.008334778737895596, 0.006263576231193982, -0.0029577636912061587),
        pace=0.1,
    ),
    "what was measured of a state that another one replaced was told again": Plan(
        seed=112,
        workers=3,
        jobs=(
            JobSpec(
                task="digits",
                steps=30,
                global_batch=8,
                shards=4,
                max_workers=3,
                step_timeout=4.0,
                max_restarts=1000,
            ),
        ),
        policy=Policy(
            heartbeat_interval=0.5,
            detached_limit=5.0,
            detached_margin=1.0,
            leader_lease=1.0,
            prepare_limit=6.0,
            halt_limit=2.0,
            form_limit=3.0,
            absent_limit=5.0,
            save_retry=0.5,
            read_retry=1.5,
            error_limit=1000,
        ),
        faults=(
            Fault(kind=Kind.ISOLATE, workers=(0, 2), at=3.600440806926709, border="halt", seconds=18.0),
            Fault(kind=Kind.KILL_TRAINER, workers=(2,), at=5.212307276285941),
        ),
        skews=(901009.9334331624, 289306.1380836286, 435885.2888799178, 525625.5765557395),
        drifts=(0.002485127589376735, -0.008008518931830117, 0.0024767981864891146, -0.005300689849909184),
        pace=0.2,
    ),
    "measurements of a line that was lost were shown": Plan(
        seed=211,
        workers=3,
        jobs=(
            JobSpec(
                task="digits",
                steps=30,
                global_batch=8,
                shards=4,
                max_workers=3,
                step_timeout=4.0,
                max_restarts=1000,
            ),
        ),
        policy=Policy(
            heartbeat_interval=0.5,
            detached_limit=5.0,
            detached_margin=1.0,
            leader_lease=1.0,
            prepare_limit=6.0,
            halt_limit=2.0,
            form_limit=3.0,
            absent_limit=5.0,
            save_retry=0.5,
            read_retry=1.5,
            error_limit=1000,
        ),
        faults=(
            Fault(kind=Kind.ISOLATE, workers=(2,), at=3.357212219682131, seconds=3.0),
            Fault(kind=Kind.CUT, workers=(2,), at=3.357212219682131),
            Fault(kind=Kind.BREAK, workers=(0, 1), at=3.500797323374603, border="contributed"),
            Fault(kind=Kind.KILL_AGENT, workers=(0, 1), at=5.10026024865345, border="form"),
        ),
        skews=(69000.06902900657, 242956.6732393702, 924341.2733794049, 927020.9351674659),
        drifts=(0.0007393668492231501, -0.005540480862062797, -0.008639188336011712, -0.009353594933147193),
        pace=0.1,
    ),
    "the last copy came back and was sent away": Plan(
        seed=0,
        workers=2,
        jobs=(
            JobSpec(
                task="digits",
                steps=30,
                global_batch=8,
                shards=4,
                max_workers=2,
                step_timeout=4.0,
                max_restarts=1000,
            ),
        ),
        policy=Policy(
            heartbeat_interval=0.5,
            detached_limit=5.0,
            detached_margin=1.0,
            leader_lease=1.0,
            prepare_limit=6.0,
            halt_limit=2.0,
            form_limit=3.0,
            absent_limit=5.0,
            save_retry=0.5,
            read_retry=1.5,
            error_limit=2,
        ),
        faults=(
            Fault(kind=Kind.ISOLATE, workers=(1,), at=2.598763344659148, seconds=6.6),
            Fault(kind=Kind.CUT, workers=(1,), at=2.598763344659148),
            Fault(kind=Kind.BREAK, workers=(0,), at=2.788351584437642, border="contributed"),
            Fault(kind=Kind.KILL_AGENT, workers=(0,), at=9.16630359494929),
        ),
        skews=(547230.1064999182, 287657.264210202, 91632.09495162105),
        drifts=(0.005958700386420062, -0.0036590630448384573, -0.005157856897960678),
        pace=0.2,
    ),
    "who held the last state was gone back past in the moment in which its connection was cut": Plan(
        seed=2275,
        workers=3,
        jobs=(
            JobSpec(
                task="digits",
                steps=50,
                global_batch=8,
                shards=4,
                max_workers=3,
                step_timeout=4.0,
                max_restarts=1000,
            ),
        ),
        policy=Policy(
            heartbeat_interval=0.5,
            detached_limit=5.0,
            detached_margin=1.0,
            leader_lease=1.0,
            prepare_limit=6.0,
            halt_limit=2.0,
            form_limit=3.0,
            absent_limit=5.0,
            forget_limit=1.5,
            save_retry=0.5,
            read_retry=1.5,
            error_limit=1000,
        ),
        faults=(
            Fault(kind=Kind.ISOLATE, workers=(0,), at=2.224383389100063, border="halt", seconds=2.0),
            Fault(kind=Kind.LEAVE, workers=(0,), at=2.335713271105145, border="contributed"),
            Fault(kind=Kind.ISOLATE, workers=(0,), at=3.3217186709287114, border="halt", seconds=1.0),
            Fault(kind=Kind.KILL_TRAINER, workers=(2,), at=3.6277526596494005, border="halted"),
        ),
        skews=(641422.8042069203, 529679.5556282465, 937356.8372019088, 961829.1072362647),
        drifts=(0.005144231059440715, 0.000658226148894249, 0.0014797840933844283, -0.0075993433291189705),
        pace=0.2,
    ),
    "who was not heard for a while, and so was not asked, was killed when it was heard again": Plan(
        seed=508,
        workers=4,
        jobs=(
            JobSpec(
                task="digits",
                epochs=1,
                global_batch=8,
                shards=4,
                max_workers=4,
                step_timeout=4.0,
                max_restarts=1000,
            ),
        ),
        policy=Policy(
            heartbeat_interval=0.5,
            detached_limit=5.0,
            detached_margin=1.0,
            leader_lease=1.0,
            prepare_limit=6.0,
            halt_limit=2.0,
            form_limit=3.0,
            absent_limit=5.0,
            save_retry=0.5,
            read_retry=1.5,
            error_limit=1000,
        ),
        faults=(
            Fault(kind=Kind.ISOLATE, workers=(2,), at=2.6785115280631167, seconds=4.0),
            Fault(kind=Kind.KILL_AGENT, workers=(2,), at=4.300946293219983, border="applying"),
        ),
        skews=(328316.903684856, 36076.419266961704, 903176.1772291387, 551607.6346911441, 702447.4944401069),
        drifts=(
            0.0048206843285525085,
            -0.007981442143374063,
            -0.00012030996747781908,
            -0.008740711092598417,
            0.0029586408639186226,
        ),
        pace=0.2,
    ),
}
KEPT = PLANTED | MENDED
CANARY = "a torn state is answered"  # whatever the dice say


@pytest.mark.parametrize("name", KEPT)
def test_what_once_broke_a_rule_breaks_none(name):
    outcome = live(KEPT[name])
    assert outcome.error is None
    assert outcome.met, "no fault struck: the plan says nothing any more, and a new one is needed"


def test_kept_plans_are_named_after_what_they_found():
    assert set(PLANTED) <= {bug.name for bug in BUGS}


def test_the_canary_dies_of_the_bug_that_its_plan_is_kept_for():
    """Were all plans survived, whatever is planted, they would prove nothing."""
    program = (
        "import runpy\n"
        "from regroup.lab.sim.planted.bugs import BUGS, plant\n"
        f"plant(next(bug for bug in BUGS if bug.name == {CANARY!r}))\n"
        "from regroup.lab.sim.lives.outcome import live\n"
        f"kept = runpy.run_path({__file__!r})['KEPT']\n"
        f"print(live(kept[{CANARY!r}]).error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith("AssertionError")
