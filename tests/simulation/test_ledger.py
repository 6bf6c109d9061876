"""The record of seeds that were lived through."""

import json
from errno import ENOSPC
from pathlib import Path

import pytest

from regroup.lab.sim.lives import ledger
from regroup.lab.sim.lives.ledger import Ledger, code_under_test, read, write


@pytest.mark.parametrize(
    ("added", "ranges", "lives", "following"),
    [
        ([(0, 10)], ((0, 10),), 10, 10),
        ([(0, 10), (10, 5)], ((0, 15),), 15, 15),
        ([(0, 10), (20, 5)], ((0, 10), (20, 25)), 15, 10),
        ([(0, 10), (20, 5), (5, 17)], ((0, 25),), 25, 25),
        ([(7, 3)], ((7, 10),), 3, 0),
        ([(0, 10), (2, 3)], ((0, 10),), 10, 10),
    ],
)
def test_ranges_are_united_and_no_seed_counts_twice(added, ranges, lives, following):
    kept = Ledger("code")
    for first, count in added:
        kept = kept.add(first, count, [], {})
    assert (kept.ranges, kept.lives, kept.next) == (ranges, lives, following)


def test_what_is_written_is_read_again(tmp_path):
    never = {"reasons": ["a", "b"], "pairs": []}
    kept = Ledger(code_under_test()).add(0, 100, [17], never).add(200, 50, [3, 17], never)
    write(tmp_path / "lives.json", kept)
    assert read(tmp_path / "lives.json") == kept
    assert kept.broken == (3, 17)
    assert json.loads((tmp_path / "lives.json").read_text())["lives"] == 150


def test_a_seed_that_is_lived_anew_is_broken_or_not_as_it_is_now():
    kept = Ledger("code").add(0, 100, [17, 50], {}).add(40, 20, [], {})
    assert kept.broken == (17,)
    assert kept.add(17, 1, [17], {}).broken == (17,)


def test_what_no_life_met_is_what_none_of_all_those_ranges_did():
    kept = Ledger("code").add(0, 100, [], {"reasons": ["a", "b", "c"], "pairs": ["d"]})
    kept = kept.add(100, 100, [], {"reasons": ["c", "b", "e"], "pairs": []})
    assert kept.never == {"reasons": ("c", "b"), "pairs": ()}
    assert kept.add(200, 100, [], {"reasons": ["a", "b"], "pairs": ["d"]}).never == {"reasons": ("b",), "pairs": ()}


def test_without_a_file_there_is_no_record(tmp_path):
    assert read(tmp_path / "lives.json") is None


def test_what_is_written_is_there_in_one_piece_or_not_at_all(tmp_path, monkeypatch):
    write(tmp_path / "lives.json", Ledger("code").add(0, 100, [], {}))
    full = OSError(ENOSPC, "No space left on device")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(full))
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path / "lives.json", Ledger("code").add(0, 200, [], {}))
    assert read(tmp_path / "lives.json") == Ledger("code").add(0, 100, [], {})
    assert [each.name for each in tmp_path.iterdir()] == ["lives.json"]


RECORD = {"code": "x", "ranges": [[0, 1], [3, 5]], "broken": [4], "never": {"pairs": ["a"]}}


def test_a_record_is_read_as_it_was_written_by_another(tmp_path):
    (tmp_path / "lives.json").write_text(json.dumps(RECORD))
    assert read(tmp_path / "lives.json") == Ledger("x", ((0, 1), (3, 5)), (4,), {"pairs": ("a",)})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "it is not JSON"),
        (b"\xff", "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b"[]", "it names no code"),
        (b'{"code": 3}', "it names no code"),
        (b'{"code": "x"}', "it has no ranges of seeds"),
        (json.dumps(RECORD | {"ranges": [[1]]}).encode(), "it has no ranges of seeds"),
        (json.dumps(RECORD | {"ranges": [[5, 3]]}).encode(), "its ranges of seeds are none"),
        (json.dumps(RECORD | {"ranges": [[-5, 3]]}).encode(), "its ranges of seeds are none"),
        (json.dumps(RECORD | {"ranges": [[0, 3], [3, 5]]}).encode(), "its ranges of seeds are none"),
        (json.dumps(RECORD | {"ranges": [[0, 1.5]]}).encode(), "its ranges of seeds are none"),
        (json.dumps(RECORD).replace("5", "1e400").encode(), "its ranges of seeds are none"),
        (json.dumps(RECORD | {"broken": [1]}).encode(), "its broken seeds are not of its ranges"),
        (json.dumps(RECORD | {"never": []}).encode(), "it does not say what was never met"),
        (json.dumps(RECORD | {"never": {"pairs": "a"}}).encode(), "it does not say what was never met"),
    ],
)
def test_a_file_that_is_no_record_is_refused_with_the_reason(tmp_path, text, why):
    (tmp_path / "lives.json").write_bytes(text)
    with pytest.raises(ValueError, match=why):
        read(tmp_path / "lives.json")


def test_the_code_under_test_changes_with_any_of_its_files(tmp_path, monkeypatch):
    for name in ("core/decide.py", "core/messages/orders.py", "worker/session.py", "worker/other.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("one\n")
    monkeypatch.setattr(ledger, "ROOT", tmp_path)
    first = code_under_test()
    (tmp_path / "worker/other.py").write_text("two\n")
    assert code_under_test() == first
    (tmp_path / "core/messages/orders.py").write_text("two\n")
    assert (second := code_under_test()) != first
    (tmp_path / "worker/session.py").write_text("two\n")
    assert code_under_test() not in (first, second)


def test_the_files_under_test_are_there():
    assert all(list(ledger.ROOT.glob(pattern)) for pattern in ledger.UNDER_TEST)
