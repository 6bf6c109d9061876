"""Records are gathered exactly once, one piece at a time, from whichever agent of their machine still answers."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

from regroup.coordinator.gathering import Gathering, RecordsBroke
from regroup.core.messages.orders import ReadRecords, RecordsOrder
from regroup.worker import archive
from regroup.worker.archive import PIECE

LINES = "".join(f'{{"applied":{step}}}\n' for step in range(3 * PIECE // 16))


class Machines:
    """Agents that answer from real folders, at once.

    But the silent do not, the leaving hang up when they are asked, and those with `lives` do so after so many pieces.
    """

    def __init__(self, **folders: Path) -> None:
        self.folders = folders
        self.lives: dict[str, int] = {}
        self.silent: set[str] = set()
        self.leaving: set[str] = set()
        self.asked: list[tuple[str, RecordsOrder]] = []
        self.gathering = Gathering(self.send, patience=0.1)

    def send(self, worker: str, order: RecordsOrder) -> bool:
        self.asked.append((worker, order))
        if isinstance(order, ReadRecords) and worker in self.lives:
            self.lives[worker] -= 1
            if self.lives[worker] < 0:
                self.leaving.add(worker)
        soon = asyncio.get_running_loop().call_soon
        if worker in self.leaving:
            soon(self.gathering.closed, worker)
        elif worker not in self.silent:
            soon(self.gathering.answered, worker, archive.answer(self.folders[worker], order))
        return True

    def records(self, *workers: str) -> AsyncIterator[tuple[str, str]]:
        return self.gathering.records("j", workers or tuple(self.folders))


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder of records: two files, the second of several pieces."""
    write(tmp_path / "one", {"w0-a.jsonl": '{"applied":0}\n', "w1-b.jsonl": LINES})
    return tmp_path / "one"


def write(folder: Path, files: dict[str, str]) -> None:
    (folder / "j").mkdir(parents=True)
    for name, text in files.items():
        (folder / "j" / name).write_text(text)


def joined(pieces: Iterable[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for file, text in pieces:
        found[file] = found.get(file, "") + text
    return found


WHOLE = {"w0-a.jsonl": '{"applied":0}\n', "w1-b.jsonl": LINES}


async def test_each_file_comes_once_though_all_agents_of_its_machine_have_it(machine):
    machines = Machines(w0=machine, w1=machine)
    assert joined([piece async for piece in machines.records()]) == WHOLE


async def test_the_files_of_several_machines_come_together(machine, tmp_path):
    write(tmp_path / "two", {"w2-c.jsonl": "other\n"})
    machines = Machines(w0=machine, w2=tmp_path / "two", w3=tmp_path / "none")
    assert joined([piece async for piece in machines.records()]) == {**WHOLE, "w2-c.jsonl": "other\n"}


async def test_another_agent_of_the_machine_goes_on_where_the_first_one_was_lost(machine):
    machines = Machines(w0=machine, w1=machine)
    machines.lives["w0"] = 2  # it dies within the second file
    assert joined([piece async for piece in machines.records()]) == WHOLE
    offsets = [order.offset for worker, order in machines.asked if worker == "w1" and isinstance(order, ReadRecords)]
    assert offsets[0] > 0


async def test_an_agent_that_says_nothing_is_passed_over(machine):
    machines = Machines(w0=machine, w1=machine)
    pieces = machines.records()
    first = await anext(pieces)
    machines.silent.add("w0")
    assert joined([first, *[piece async for piece in pieces]]) == WHOLE


async def test_a_file_that_nobody_can_go_on_with_breaks_the_whole(machine):
    machines = Machines(w0=machine)
    machines.lives["w0"] = 2
    pieces = machines.records()
    for _ in range(2):
        await anext(pieces)
    with pytest.raises(RecordsBroke, match=r"job j break off at byte \d+ of w1-b\.jsonl: w0: it went away"):
        await anext(pieces)


async def test_a_file_that_vanishes_while_it_is_read_breaks_the_whole(machine):
    machines = Machines(w0=machine)
    pieces = machines.records()
    await anext(pieces)
    (machine / "j" / "w1-b.jsonl").unlink()
    with pytest.raises(RecordsBroke, match="No such file"):
        await anext(pieces)


async def test_an_agent_that_is_there_and_lists_nothing_in_time_breaks_the_whole(machine):
    machines = Machines(w0=machine, w1=machine)
    machines.silent.add("w1")
    with pytest.raises(RecordsBroke, match=r"machine of w1: no answer in 0\.1 s"):
        await anext(machines.records())


async def test_an_agent_that_goes_away_before_it_lists_is_as_one_that_was_never_there(machine):
    machines = Machines(w0=machine, w1=machine)
    machines.leaving.add("w1")
    assert joined([piece async for piece in machines.records()]) == WHOLE


async def test_nothing_is_asked_for_before_the_last_piece_was_taken(machine):
    machines = Machines(w0=machine)
    pieces = machines.records()
    for number in (1, 2, 3):
        await anext(pieces)
        assert sum(isinstance(order, ReadRecords) for _, order in machines.asked) == number


async def test_an_answer_that_nobody_waits_for_is_let_go(machine):
    machines = Machines(w0=machine)
    pieces = machines.records()
    await anext(pieces)
    [_, (_, order)] = machines.asked
    machines.gathering.answered("w0", archive.answer(machine, order))  # a second time
    machines.gathering.answered("w1", archive.answer(machine, order))  # from somebody else
    assert machines.gathering._awaited == {}
    await pieces.aclose()
