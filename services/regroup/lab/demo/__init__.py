"""`regroup demo`: train on three workers, kill one in mid-step, take a new one in, finish, and prove each claim.

Owns: the play. `command` sets it up and takes it down, `story` is what happens in it, `claims` what must be true of it,
`evidence` what the workers' own records say about the kill; `screen`, `chart` and `ending` are what is seen.
Refuses to know: how the cluster works. It starts processes and kills one; all else goes through the REST API.
"""

from regroup.lab.demo.command import demo

__all__ = ["demo"]
