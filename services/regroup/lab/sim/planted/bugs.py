"""All bugs that are planted, one at a time, to see whether the simulator finds them.

Owns: that they are these. Each table is a seam of the code: five of the core, one of the worker, one of the
shell; the last two have what escaped the rules once.
Refuses to know: how one is planted (`planting`), and how it is found. A test says when the text of one is gone.
"""

from regroup.lab.sim.planted import (
    blaming_bugs,
    escaped_bugs,
    forming_bugs,
    leaving_bugs,
    noticing_bugs,
    outside_bugs,
    saving_bugs,
    shell_bugs,
    worker_bugs,
)

BUGS = (
    *forming_bugs.BUGS,
    *saving_bugs.BUGS,
    *leaving_bugs.BUGS,
    *noticing_bugs.BUGS,
    *blaming_bugs.BUGS,
    *worker_bugs.BUGS,
    *shell_bugs.BUGS,
    *escaped_bugs.BUGS,
    *outside_bugs.BUGS,
)
