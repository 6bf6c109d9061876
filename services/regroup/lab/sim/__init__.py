"""The simulator: the real decisions, sessions and shell, in virtual time, in a world that misbehaves."""
