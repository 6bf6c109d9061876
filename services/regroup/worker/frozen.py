"""What the fork server imports last: whatever it has imported by then is never looked at by a garbage collection.

A collection writes into every object that it looks at. In a fork each page that is written to becomes a copy of its
own, so that a trainer's first full collection would double the memory that it shares with the fork server.
Owns: that. Refuses to know: what was imported, and who forks.
"""

import gc

gc.collect()
gc.freeze()
gc.enable()  # see `uncollected`
