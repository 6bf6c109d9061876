"""What ends a benchmark before its time."""


class BenchFailed(Exception):
    """The cluster did not do what is to be measured; the message says what."""
