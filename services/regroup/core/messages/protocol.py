"""Which messages this release speaks, as one number that both ends of a connection compare when they first meet.

Owns: the number, and when it is raised: whenever a message changes so that a side which does not know of it would do
something wrong. A field that may be left out, or ignored, is no such change; one of a job spec is, for an older side
refuses a spec with a field that it does not know.
Refuses to know: what follows from a difference (`core.agent_reports`), and how messages are encoded.
What two sides of different numbers say to each other, AgentRegistered and TurnAway, must stay readable for both: of
these, fields are only ever added, and have a default.
"""

PROTOCOL = 1
FIRST = 1  # what an agent speaks that says no number
