"""The only place that imports zmq: Hub is the coordinator's end of all connections, Line an agent's end of one.

Owns: sockets, encryption and who is let in (CURVE), limits on size and count, and the notice that a peer is gone.
Refuses to know: what a report or an order means, and what the loss of a connection means (alone it is no death).
Does not guarantee delivery. Neither end ever blocks or queues for an absent peer: what cannot be sent now is dropped
and counted. Orders are derived from state and repeated; reports are backed by what each heartbeat says.
Whatever cannot be understood is counted, logged and dropped, and never stops the loop.
"""

from regroup.wire.link.hub import AddressInUse, AddressUnusable, Hub
from regroup.wire.link.line import Line
from regroup.wire.link.sockets import MAX_MESSAGE, WORKER_NAME, new_secret, public_of

__all__ = [
    "MAX_MESSAGE",
    "WORKER_NAME",
    "AddressInUse",
    "AddressUnusable",
    "Hub",
    "Line",
    "new_secret",
    "public_of",
]
