"""A join token brings two keys over a channel that people copy through."""

import pytest

from regroup.wire.join import MARK, BadJoinToken, join_token, read_join_token
from regroup.wire.keys import server_keys, worker_keys


@pytest.fixture
def token(tmp_path):
    return join_token(server_keys(tmp_path).public, worker_keys(tmp_path).secret)


def test_what_it_says_is_what_it_was_made_of(token, tmp_path):
    joining = read_join_token(token)
    assert joining.server == server_keys(tmp_path).public
    assert joining.worker == worker_keys(tmp_path)


def test_it_is_one_word_that_needs_no_quotes(token):
    assert token.startswith(MARK)
    assert all(character.isalnum() or character in "-_=" for character in token)


def test_blanks_around_it_do_not_matter(token):
    assert read_join_token(f" {token}\n") == read_join_token(token)


@pytest.mark.parametrize("position", range(0, 127, 7))
def test_no_character_may_be_lost_or_changed(token, position):
    for damaged in (token[:position] + token[position + 1 :], token[:position] + "~" + token[position + 1 :]):
        with pytest.raises(BadJoinToken):
            read_join_token(damaged)


@pytest.mark.parametrize("word", ["", "hello", MARK, "ä", f"{MARK}ä", f"{MARK}AAAA", "regroup-join-2-AAAA"])
def test_another_word_is_refused(word):
    with pytest.raises(BadJoinToken, match=r"is no join token: copy it whole"):
        read_join_token(word)


def test_the_error_does_not_repeat_a_secret(token):
    with pytest.raises(BadJoinToken) as error:
        read_join_token(token[:-3])
    assert token[20:40] not in str(error.value)


def test_what_was_read_does_not_show_the_secret(token, tmp_path):
    assert worker_keys(tmp_path).secret.decode() not in repr(read_join_token(token))
