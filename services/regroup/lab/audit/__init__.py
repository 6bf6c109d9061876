"""The audit: was each sample trained exactly once? Answered from what the workers wrote down, by counting alone.

Owns: walking the history from the final state back to the seed, and counting the `read` and `applied` lines of the
steps that survived (their shape is in `worker.records`).
Refuses to know: the order of the data, who owned which shard, what any process believes. An index counts because a
worker wrote that it asked its dataset for it.
Does not guarantee: that the history is true (it is the coordinator's claim; where the records contradict it, that is
found), nor what a record lost with its machine would have said.
"""

from regroup.lab.audit.claim import Claim
from regroup.lab.audit.command import audit_job
from regroup.lab.audit.count import Audit, audit

__all__ = ["Audit", "Claim", "audit", "audit_job"]
