"""The decisions of Regroup as values: standard library only, no clock, no I/O, no logging, no randomness."""
