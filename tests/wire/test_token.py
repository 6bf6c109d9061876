"""The token, on a real file system."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from regroup.wire.token import BadToken, api_token, checked, load_or_make, metrics_token


def test_a_token_is_made_once_for_its_owner_alone(tmp_path):
    path = tmp_path / "token"
    token = load_or_make(path)
    assert len(token) >= 40
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_or_make(path) == token
    assert os.listdir(tmp_path) == ["token"]


def test_processes_that_start_at_once_agree_on_one_token(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        tokens = set(pool.map(lambda _: load_or_make(tmp_path / "token"), range(32)))
    assert len(tokens) == 1


@pytest.mark.parametrize("content", [b"", b"  \n", b"two words", b"\xff\xfe"])
def test_a_file_that_holds_no_token_is_refused_by_name(tmp_path, content):
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(BadToken, match=str(path)):
        load_or_make(path)


def test_what_opens_metrics_is_a_word_of_its_own_for_each_token():
    words = {metrics_token(token) for token in ("a", "b", "a" * 43)}
    assert len(words) == 3
    assert all(checked(word, "here") == word and len(word) == 43 for word in words)
    assert metrics_token("a") == metrics_token("a")


def test_a_given_token_is_taken_and_nothing_is_written(tmp_path):
    assert api_token(tmp_path / "token", " given ") == "given"
    assert not list(tmp_path.iterdir())
    with pytest.raises(BadToken, match="REGROUP_TOKEN"):
        api_token(tmp_path / "token", "")
