"""What was raised, in words: bounded, and safe whatever the exception does when it is asked."""

import pytest

from regroup.worker.words import LINE, TRACE, clipped, said, text_of, trace

ROOM = 100  # characters that say how many are left out


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Leaves(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Odd(Exception):
    """Also traceback asks for these."""

    @property
    def __notes__(self) -> list[str]:
        raise ValueError("no notes")


def traced(error: BaseException) -> str:
    try:
        raise error
    except type(error):
        return trace()


def test_what_is_short_is_told_as_it_is() -> None:
    assert said(KeyError("label 17")) == "KeyError: 'label 17'"
    assert text_of(ValueError("two\nlines")) == "two\nlines"
    assert traced(ValueError("no")).endswith("raise error\nValueError: no\n")


def test_of_what_is_too_long_the_beginning_and_the_end_are_kept() -> None:
    huge = ValueError("begins" + "x" * 9_000_000 + "ends")
    told = said(huge)
    assert told.startswith("ValueError: begins")
    assert told.endswith("ends")
    assert len(told) < LINE + ROOM
    *_, last, nothing = traced(huge).split("\n")
    assert (last[:18], last[-4:], nothing) == ("ValueError: begins", "ends", "")
    assert len(last) < LINE + ROOM


def test_a_traceback_of_many_lines_keeps_where_it_began_and_what_was_raised() -> None:
    told = traced(ValueError("\n".join(f"line {number}" for number in range(100_000))))
    assert len(told) < TRACE + ROOM
    assert told.startswith("Traceback (most recent call last):")
    assert told.endswith("line 99999\n")


@pytest.mark.parametrize(("length", "kept"), [(LINE, LINE), (LINE + 1, LINE)])
def test_it_is_said_how_much_is_left_out(length: int, kept: int) -> None:
    told = clipped("y" * length)
    assert told.count("y") == kept
    assert ("[... 1 characters ...]" in told) is (length > LINE)


@pytest.mark.parametrize(("error", "worse"), [(Speechless(), "RuntimeError"), (Leaves(), "SystemExit")])
def test_an_error_that_cannot_be_put_into_words_is_told_by_its_kind(error: Exception, worse: str) -> None:
    assert said(error) == f"{type(error).__name__}: (its text cannot be told: __str__ raised {worse})"
    assert type(error).__name__ in traced(error)


def test_an_error_of_which_no_traceback_can_be_made_is_told_all_the_same() -> None:
    assert traced(Odd()) == "(its traceback cannot be told: ValueError)"
