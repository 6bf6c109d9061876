"""The built-in digits, disturbed. A module of its own, because scikit-learn takes a second to import."""

from disturbed import Disturbed

from regroup.tasks import digits


class Digits(Disturbed, digits.Digits):
    """See `disturbed.Disturbed` for what it can be told to do, and the built-in task for its options."""
