"""What the fork server imports first: no garbage is collected until it has imported all (`frozen`).

What is imported stays, thousands of modules of torch's; to look at it again and again is a seventh of the time until a
worker is ready.
Owns: that. Refuses to know: what is imported, and who forks.
"""

import gc

gc.disable()
