"""What was raised, in words that travel: bounded, and made safely, whatever a user's exception does when it is asked.

Owns: how long such words may be, and what stands for those that cannot be had.
Refuses to know: whose error it is (`trouble`, `prepare`), and who is told.
Does not guarantee: that the words are whole. Of what is too long the beginning and the end are kept.
"""

from traceback import format_exc

LINE = 2_000  # characters: it becomes a job's reason, and stands in the timeline
TRACE = 16_000  # characters: a job's record keeps up to twenty of them


def said(error: BaseException) -> str:
    """The error's kind and its text."""
    return clipped(f"{type(error).__name__}: {text_of(error)}")


def text_of(error: BaseException) -> str:
    try:
        return clipped(str(error))
    except BaseException as worse:  # the user's code again
        return f"(its text cannot be told: __str__ raised {type(worse).__name__})"


def trace() -> str:
    """The traceback of what is being handled."""
    try:
        whole = format_exc()
    except BaseException as worse:  # an exception may be odd in more ways than traceback foresees
        return f"(its traceback cannot be told: {type(worse).__name__})"
    return clipped("\n".join(clipped(line) for line in whole.split("\n")), TRACE)


def clipped(text: str, most: int = LINE) -> str:
    """At most about so many characters of it."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} [... {len(text) - 2 * half} characters ...] {text[-half:]}"
