"""The nursery, with real processes: what a trainer is forked from, its spare, and how its end is told."""

import multiprocessing.connection
import os
import select
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from regroup.worker.nursery import Birth, Nursery, Trainer
from regroup.worker.position import Position

pytestmark = pytest.mark.cluster  # it imports torch in a fork server: seconds


def tell(pipe: multiprocessing.connection.Connection, birth: Birth) -> None:
    """The target: says what it is, then does as it is told."""
    pipe.send_bytes(f"{os.getpid()} {os.getppid()} {len(os.listdir(f'/proc/{os.getppid()}/task'))}".encode())
    Position(birth.position).enter(7, 3)
    if pipe.recv_bytes() == b"bear":
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
        child.start()
        pipe.send_bytes(str(child.pid).encode())
        child.join()
    os._exit(5)


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    patch = pytest.MonkeyPatch()
    patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
    patch.syspath_prepend(str(Path(__file__).parent))
    made = Nursery("w0", "127.0.0.1", tmp_path_factory.mktemp("data"), 1, "test_nursery:tell")
    # What trainers are forked from imports the real thing.
    made._context.set_forkserver_preload(["regroup.worker.process"])
    yield made
    made.close()
    patch.undo()


@pytest.fixture
def trainer(nursery: Nursery) -> Iterator[Trainer]:
    born = nursery.take()
    yield born
    if born.pipe.closed:
        return
    born.kill()
    born.bury()


def test_trainers_are_forked_from_a_process_with_one_thread(trainer: Trainer) -> None:
    pid, _, threads = map(int, trainer.pipe.recv_bytes().split())
    assert pid == trainer.process.pid
    assert threads == 1


def test_a_spare_is_ready_and_is_the_next_to_be_taken(nursery: Nursery) -> None:
    nursery.keep_spare()
    spare = nursery._spare
    assert spare is not None
    taken = nursery.take()
    assert taken is spare
    taken.kill()
    assert taken.bury() == "killed by SIGKILL"


def test_a_dead_spare_is_replaced(nursery: Nursery) -> None:
    nursery.keep_spare()
    dead = nursery._spare
    assert dead is not None
    dead.kill()
    dead.process.join()
    taken = nursery.take()
    assert taken.incarnation != dead.incarnation
    taken.kill()
    taken.bury()


def test_an_end_is_told_with_its_cause_and_where_it_was(trainer: Trainer) -> None:
    trainer.pipe.recv_bytes()
    trainer.pipe.send_bytes(b"leave")
    assert multiprocessing.connection.wait([trainer.process.sentinel], timeout=30)
    assert trainer.bury() == "exit status 5"
    assert trainer.last_position() == (7, 3)
    assert trainer.last_position() is None


def test_a_task_may_start_processes_and_they_end_with_its_trainer(trainer: Trainer) -> None:
    """They inherit the lock that says that the trainer lives, so that the next one would wait for them."""
    trainer.pipe.recv_bytes()
    trainer.pipe.send_bytes(b"bear")
    child = os.pidfd_open(int(trainer.pipe.recv_bytes()))
    assert not select.select([child], [], [], 0)[0]
    trainer.kill()
    assert select.select([child], [], [], 30)[0]
    os.close(child)
