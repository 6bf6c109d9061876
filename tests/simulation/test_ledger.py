"""The record of seeds that were lived through."""

import json
from errno import ENOSPC
from pathlib import Path

import pytest

from regroup.lab.sim.lives import ledger
from regroup.lab.sim.lives.ledger import Batch, Broken, Ledger, Span, Unmet, code_under_test, simulator
from regroup.lab.sim.lives.ledger_file import read, write


def batch(first, count, broken=(), never=(), by="sim", commit=None, **more):
    unmet = {sort: Unmet(9, tuple(names)) for sort, names in dict(never).items()}
    return Batch(Span(first, first + count, by, commit), broken, never=unmet, **more)


def names(kept):
    return {sort: unmet.names for sort, unmet in kept.never.items()}


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
        kept = kept.add(batch(first, count))
    assert (kept.ranges, kept.lives, kept.next) == (ranges, lives, following)
    assert [(one.first, one.end) for one in kept.lived] == [*ranges]


def test_what_is_written_is_read_again(tmp_path):
    never = {"reasons": ["a", "b"], "pairs": []}
    plans = {seed: Broken("AssertionError: no", f"Plan(seed={seed})", "1234567+") for seed in (3, 17)}
    kept = Ledger(code_under_test()).add(batch(0, 100, [17], never, by=simulator(), plans={17: plans[17]}))
    kept = kept.add(batch(200, 50, [203], never, commit="1234567+"))
    kept = kept.add(batch(3, 1, [3], never, plans={3: plans[3]}))
    impossible = {"pairs": Unmet(20, ("a during b",), {"it is not there": ("c during d",)})}
    kept = kept.add(Batch(Span(300, 301, "sim"), never=impossible))
    write(tmp_path / "lives.json", kept)
    assert read(tmp_path / "lives.json") == kept
    assert kept.broken == (3, 17, 203)
    assert kept.plans == plans
    told = json.loads((tmp_path / "lives.json").read_text())
    assert told["lives"] == 151
    assert told["plans"]["17"] == {"error": "AssertionError: no", "plan": "Plan(seed=17)", "commit": "1234567+"}
    assert told["cannot"] == {"pairs": {"it is not there": ["c during d"]}}
    assert told["never"] == {"pairs": ["a during b"]}


def test_a_seed_that_is_lived_anew_is_broken_or_not_as_it_is_now():
    plans = {seed: Broken("no", "Plan()") for seed in (17, 50)}
    kept = Ledger("code").add(batch(0, 100, [17, 50], plans=plans)).add(batch(40, 20))
    assert kept.broken == (17,)
    assert kept.plans == {17: plans[17]}
    assert kept.add(batch(17, 1, [17])).broken == (17,)


def test_what_no_life_met_is_what_none_of_all_those_ranges_did():
    kept = Ledger("code").add(batch(0, 100, [], {"reasons": ["a", "b", "c"], "pairs": ["d"]}))
    kept = kept.add(batch(100, 100, [], {"reasons": ["c", "b", "e"], "pairs": []}))
    assert names(kept) == {"reasons": ("c", "b"), "pairs": ()}
    assert names(kept.add(batch(200, 100, [], {"reasons": ["a", "b"], "pairs": ["d"]}))) == {
        "reasons": ("b",),
        "pairs": (),
    }


def test_where_other_things_could_be_met_before_or_none_were_counted_nobody_takes_them_for_met():
    kept = Ledger("code").add(batch(0, 100, [], {"pairs": ["a", "b"], "kinds": ["x"]}))
    more = {"pairs": Unmet(10, ("a", "new")), "kinds": Unmet(9, ("y",)), "left": Unmet(4, ("z",))}
    assert names(kept.add(Batch(Span(100, 200, "other"), never=more))) == {
        "pairs": ("a", "new"),
        "kinds": (),
        "left": ("z",),
    }


@pytest.mark.parametrize(
    ("again", "spans"),
    [
        ((100, 50, "one"), [(0, 150, "one")]),
        ((100, 50, "other"), [(0, 100, "one"), (100, 150, "other")]),
        ((40, 20, "other"), [(0, 40, "one"), (40, 60, "other"), (60, 100, "one")]),
        ((0, 100, "other"), [(0, 100, "other")]),
        ((200, 50, "one"), [(0, 100, "one"), (200, 250, "one")]),
    ],
)
def test_of_each_range_it_is_known_which_simulator_lived_it_last(again, spans):
    first, count, by = again
    kept = Ledger("code").add(batch(0, 100, by="one")).add(batch(first, count, by=by))
    assert [(one.first, one.end, one.simulator) for one in kept.lived] == spans
    assert sum(kept.simulators.values()) == kept.lives


def test_what_was_lived_before_that_was_told_was_lived_by_nobody_knows_which(tmp_path):
    (tmp_path / "lives.json").write_text(json.dumps(RECORD))
    old = read(tmp_path / "lives.json")
    assert old.simulators == {("", None): 3}
    kept = old.add(batch(5, 10, by="one", commit="1234567")).add(batch(4, 2, by="one", commit="89abcde"))
    assert kept.ranges == ((0, 1), (3, 15))
    assert kept.simulators == {("one", "89abcde"): 2, ("one", "1234567"): 9, ("", None): 2}


def test_without_a_file_there_is_no_record(tmp_path):
    assert read(tmp_path / "lives.json") is None


def test_what_is_written_is_there_in_one_piece_or_not_at_all(tmp_path, monkeypatch):
    write(tmp_path / "lives.json", Ledger("code").add(batch(0, 100)))
    full = OSError(ENOSPC, "No space left on device")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(full))
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path / "lives.json", Ledger("code").add(batch(0, 200)))
    assert read(tmp_path / "lives.json") == Ledger("code").add(batch(0, 100))
    assert [each.name for each in tmp_path.iterdir()] == ["lives.json"]


SPAN = {"from": 0, "below": 5, "simulator": "sim", "commit": None}
KEPT = {"error": "no", "plan": "Plan()", "commit": None}
RECORD = {"code": "x", "ranges": [[0, 1], [3, 5]], "broken": [4], "never": {"pairs": ["a"]}}


def test_a_record_is_read_as_it_was_written_before_it_told_more(tmp_path):
    """What cannot be stood among what was not met; it goes with the first lives that are added."""
    (tmp_path / "lives.json").write_text(json.dumps(RECORD | {"never": {"pairs": ["a", "b", "cannot be"]}}))
    old = read(tmp_path / "lives.json")
    assert old == Ledger("x", ((0, 1), (3, 5)), (4,), never={"pairs": Unmet(0, ("a", "b", "cannot be"))})
    now = old.add(Batch(Span(5, 7, "sim"), never={"pairs": Unmet(9, ("b", "c"), {"why": ("cannot be",)})}))
    assert now.never == {"pairs": Unmet(9, ("b",), {"why": ("cannot be",)})}
    assert (now.ranges, now.broken) == (((0, 1), (3, 7)), (4,))


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
        (json.dumps(RECORD | {"there_are": {"pairs": "9"}}).encode(), "it does not say what was never met"),
        (json.dumps(RECORD | {"there_are": []}).encode(), "it does not say what was never met"),
        (json.dumps(RECORD | {"cannot": {"pairs": ["a"]}}).encode(), "it does not say what was never met"),
        (json.dumps(RECORD | {"cannot": {"pairs": {"why": "a"}}}).encode(), "it does not say what was never met"),
        (json.dumps(RECORD | {"lived": [[0, 1]]}).encode(), "it does not say what lived its ranges"),
        (json.dumps(RECORD | {"lived": [SPAN | {"below": 3.5}]}).encode(), "it does not say what lived its ranges"),
        (json.dumps(RECORD | {"lived": [SPAN, SPAN]}).encode(), "it does not say what lived its ranges"),
        (json.dumps(RECORD | {"plans": [4]}).encode(), "its plans are none"),
        (json.dumps(RECORD | {"plans": {"4": "Plan()"}}).encode(), "its plans are none"),
        (json.dumps(RECORD | {"plans": {"3": KEPT}}).encode(), "its plans are not of its broken seeds"),
    ],
)
def test_a_file_that_is_no_record_is_refused_with_the_reason(tmp_path, text, why):
    (tmp_path / "lives.json").write_bytes(text)
    with pytest.raises(ValueError, match=why):
        read(tmp_path / "lives.json")


def test_the_code_under_test_and_the_simulator_change_with_any_of_their_files(tmp_path, monkeypatch):
    parts = ("core/decide.py", "core/messages/orders.py", "worker/session.py", "worker/other.py")
    for name in (*parts, "lab/sim/lives/themes/theme.py", "lab/sim/search/bounds.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("one\n")
    monkeypatch.setattr(ledger, "ROOT", tmp_path)
    first, lived_by = code_under_test(), simulator()
    for name in ("worker/other.py", "lab/sim/search/bounds.py"):
        (tmp_path / name).write_text("two\n")
    assert (code_under_test(), simulator()) == (first, lived_by)
    (tmp_path / "core/messages/orders.py").write_text("two\n")
    assert (second := code_under_test()) != first
    (tmp_path / "worker/session.py").write_text("two\n")
    assert code_under_test() not in (first, second)
    assert simulator() == lived_by
    (tmp_path / "lab/sim/lives/themes/theme.py").write_text("two\n")
    assert simulator() != lived_by


def test_the_files_that_are_digested_are_there():
    assert all(list(ledger.ROOT.glob(pattern)) for pattern in (*ledger.UNDER_TEST, *ledger.SIMULATOR))
