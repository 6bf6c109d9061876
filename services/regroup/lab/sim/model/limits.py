"""What simulated clusters live by: their workers' names, their limits, and the job that they are given.

Owns: values that are small, so that a life is short, and mostly in the order of a real cluster's; and what the protocol
counts to.
Refuses to know: which of them a simulation changes.
"""

from regroup.core.cluster import Policy
from regroup.core.spec import JobSpec

POLICY = Policy(
    heartbeat_interval=0.6,
    tick=0.5,
    detached_limit=5.0,
    detached_margin=1.0,
    leader_lease=1.0,
    prepare_limit=6.0,
    halt_limit=2.0,
    hang_floor=0.6,
    form_limit=3.0,
    absent_limit=5.0,
    save_retry=0.5,
    read_retry=1.5,
    error_limit=1000,
)
SPEC = JobSpec(task="digits", steps=8, global_batch=8, shards=4, max_workers=3, step_timeout=4.0, max_restarts=1000)
# As docs/protocol.md says them, not as the core does: a rule that asked the core would follow it wherever it went.
FETCHES = 3  # for one step, each too long, until that is the task's error
COMING_BACK = 1.0  # seconds that who hangs has once all others have answered
FRUITLESS = 3  # formations in a row without a step
SELDOM = 5  # failures to form in a row, for which also one may go that is not heard just then
OF_ONE = 4  # failures of one worker, though another one was to try each time
NAMES = "abcdefgh"  # of workers, by their index in a plan
