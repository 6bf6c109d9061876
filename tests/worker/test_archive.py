"""What an agent reads of its machine's records: the names of a job's files, and pieces that add up to a file."""

from pathlib import Path

import pytest

from regroup.core.messages.agent_reports import RecordsFailed, RecordsListed, RecordsRead
from regroup.core.messages.orders import ListRecords, ReadRecords
from regroup.worker import archive
from regroup.worker.archive import PIECE


def write(records: Path, file: str, content: bytes, job: str = "j") -> None:
    (records / job).mkdir(parents=True, exist_ok=True)
    (records / job / file).write_bytes(content)


def read(records: Path, file: str, offset: int = 0, job: str = "j") -> RecordsRead:
    answer = archive.answer(records, ReadRecords("r1", job, file, offset))
    assert isinstance(answer, RecordsRead), answer
    return answer


def pieces(records: Path, file: str) -> list[str]:
    found, offset, more = [], 0, True
    while more:
        piece = read(records, file, offset)
        found.append(piece.text)
        offset, more = piece.end, piece.more
    return found


def test_the_files_of_all_workers_are_listed_and_nothing_else(tmp_path):
    for file in ("w1-b.jsonl", "w0-a.jsonl", "w0-a.log", ".w0-a.jsonl-draft"):
        write(tmp_path, file, b"")
    write(tmp_path, "w2-c.jsonl", b"", job="other")
    assert archive.answer(tmp_path, ListRecords("r1", "j")) == RecordsListed(
        request="r1", files=("w0-a.jsonl", "w1-b.jsonl")
    )


def test_a_job_without_records_here_has_no_files(tmp_path):
    assert archive.answer(tmp_path, ListRecords("r1", "j")) == RecordsListed(request="r1", files=())


def test_pieces_are_whole_lines_of_a_bounded_size_and_add_up_to_the_file(tmp_path):
    lines = b"".join(b'{"applied":%d}\n' % step for step in range(50_000))
    write(tmp_path, "w0-a.jsonl", lines)
    found = pieces(tmp_path, "w0-a.jsonl")
    assert "".join(found) == lines.decode()
    assert len(found) > 2
    assert all(len(text) <= PIECE and text.endswith("\n") for text in found)


def test_a_file_of_exactly_a_piece_is_read_to_its_end(tmp_path):
    write(tmp_path, "w0-a.jsonl", b"x" * (PIECE - 1) + b"\n")
    assert "".join(pieces(tmp_path, "w0-a.jsonl")) == "x" * (PIECE - 1) + "\n"


def test_a_line_longer_than_a_piece_comes_in_parts(tmp_path):
    line = "x" * (2 * PIECE + 10) + "\n"
    write(tmp_path, "w0-a.jsonl", line.encode() + b"short\n")
    found = pieces(tmp_path, "w0-a.jsonl")
    assert "".join(found) == line + "short\n"
    assert max(map(len, found)) <= PIECE


def test_a_line_that_is_being_written_is_left_for_later(tmp_path):
    write(tmp_path, "w0-a.jsonl", b"whole\nha")
    assert read(tmp_path, "w0-a.jsonl") == RecordsRead(request="r1", text="whole\n", end=6, more=False)
    write(tmp_path, "w0-a.jsonl", b"whole\nhalf\n")
    assert read(tmp_path, "w0-a.jsonl", offset=6).text == "half\n"


def test_bytes_that_are_no_text_do_not_end_the_agent(tmp_path):
    write(tmp_path, "w0-a.jsonl", b"\xff\xfe\n")
    piece = read(tmp_path, "w0-a.jsonl")
    assert (piece.text, piece.end) == ("\ufffd\ufffd\n", 3)


@pytest.mark.parametrize(
    ("job", "file"),
    [
        ("..", "secret.jsonl"),
        (".", "secret.jsonl"),
        ("", "secret.jsonl"),
        ("j/..", "secret.jsonl"),
        ("j", "../../secret.jsonl"),
        ("j", "/etc/passwd"),
        ("j", ".."),
        ("j", "a\0.jsonl"),
        ("j", "w0-a.jsonl\n"),
    ],
)
def test_no_name_leads_out_of_the_records(tmp_path, job, file):
    records = tmp_path / "records"
    write(records, "w0-a.jsonl", b"line\n")
    for folder in (tmp_path, records):
        (folder / "secret.jsonl").write_text("secret\n")
    assert isinstance(archive.answer(records, ReadRecords("r1", job, file, 0)), RecordsFailed)
    if job != "j":
        assert isinstance(archive.answer(records, ListRecords("r1", job)), RecordsFailed)


def test_a_file_that_cannot_be_read_is_said(tmp_path):
    (tmp_path / "j" / "w0-a.jsonl").mkdir(parents=True)
    for file in ("w0-a.jsonl", "w1-b.jsonl"):
        answer = archive.answer(tmp_path, ReadRecords("r1", "j", file, 0))
        assert isinstance(answer, RecordsFailed)
        assert file in answer.error
