"""Where a trainer was when it died."""

from pathlib import Path

from regroup.worker.position import Position, last_position


def test_it_is_the_last_pass_that_was_entered_and_not_left(tmp_path: Path) -> None:
    path = tmp_path / "w0.position"
    assert last_position(path) is None
    position = Position(path)
    assert last_position(path) is None
    position.enter(7, 3)
    position.enter(7, 4)
    assert last_position(path) == (7, 4)
    position.leave()
    assert last_position(path) is None


def test_to_note_it_takes_no_more_of_the_disk_than_it_had_at_first(tmp_path: Path) -> None:
    path = tmp_path / "w0.position"
    position = Position(path)
    size = path.stat().st_size
    position.enter(2**40, 4095)
    assert path.stat().st_size == size > 0
