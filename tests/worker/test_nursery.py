"""The nursery, with real processes: what a trainer is forked from, its spare, and how its end is told."""

import gc
import multiprocessing.connection
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from regroup.worker.nursery import Birth, Nursery, Trainer
from regroup.worker.position import Position

pytestmark = pytest.mark.cluster  # it imports torch in a fork server: seconds


def tell(pipe: multiprocessing.connection.Connection, birth: Birth) -> None:
    """The target: says who it is, then does as it is told: starts a child by that method, ends one, or notes where it
    is."""
    pipe.send_bytes(str(os.getpid()).encode())
    word = pipe.recv_bytes().decode()
    if word in ("fork", "forkserver"):
        context = multiprocessing.get_context(word)
        child = context.Process(target=time.sleep, args=(600,))
        child.start()
        pipe.send_bytes(str(child.pid).encode())
        child.join()
    elif word == "terminate":
        for method in ("fork", "spawn"):
            child = multiprocessing.get_context(method).Process(target=time.sleep, args=(600,))
            child.start()
            child.terminate()
            child.join(30)
            pipe.send_bytes(str(child.exitcode).encode())
    Position(birth.position).enter(7, 3)
    os._exit(5)


def count_frozen(pipe: multiprocessing.connection.Connection, birth: Birth) -> None:
    pipe.send_bytes(f"{gc.get_freeze_count()} {gc.isenabled()}".encode())


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


def test_trainers_are_forked_from_a_process_with_one_thread(tmp_path: Path) -> None:
    """Before any fork: BLAS ends its threads at the first one, when it is too late for that fork."""
    code = """if True:
        import os, sys
        from pathlib import Path
        from regroup.worker.nursery import Nursery
        Nursery("w0", "127.0.0.1", Path(sys.argv[1]), 1, "regroup.worker.process:main")
        import regroup.worker.process
        print(len(os.listdir("/proc/self/task")))
    """
    clean = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    counted = subprocess.run([sys.executable, "-c", code, tmp_path], env=clean, stdout=subprocess.PIPE, check=True)
    assert int(counted.stdout) == 1


def test_a_trainer_collects_its_garbage_and_leaves_alone_what_it_shares_with_the_fork_server(tmp_path: Path) -> None:
    code = """if True:
        import sys
        from pathlib import Path
        from regroup.worker.nursery import Nursery
        nursery = Nursery("w0", "127.0.0.1", Path(sys.argv[1]), 1, "test_nursery:count_frozen")
        print(nursery.take().pipe.recv_bytes().decode())
    """
    here = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    counted = subprocess.run([sys.executable, "-c", code, tmp_path], env=here, stdout=subprocess.PIPE, check=True)
    frozen, collects = counted.stdout.split()
    assert int(frozen) > 10_000
    assert collects == b"True"


def test_a_stopped_trainer_dies_with_its_agent_which_leaves_nothing_outside_its_folder(tmp_path: Path) -> None:
    """Whatever the length of the paths: those of sockets are short."""
    data, temporary = tmp_path / ("d" * 100), tmp_path / ("t" * 100)
    temporary.mkdir()
    code = """if True:
        import sys, time
        from pathlib import Path
        from regroup.worker.nursery import Nursery
        nursery = Nursery("w0", "127.0.0.1", Path(sys.argv[1]), 1, "test_nursery:tell")
        trainer = nursery.take()  # kept: its pipe would close with it, and end it
        print(trainer.pipe.recv_bytes().decode(), flush=True)
        time.sleep(600)
    """
    environ = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(Path(__file__).parent)}
    listeners = set()
    for _ in range(2):
        command = [sys.executable, "-c", code, data]
        with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, start_new_session=True) as agent:
            assert agent.stdout is not None
            pid = int(agent.stdout.readline())
            trainer = os.pidfd_open(pid)
            os.kill(pid, signal.SIGSTOP)
            agent.kill()
            dead = select.select([trainer], [], [], 30)[0]
            os.close(trainer)
            if not dead:
                os.killpg(agent.pid, signal.SIGKILL)
        assert dead
        (listener,) = (data / "run" / "w0.sockets").iterdir()
        listeners.add(listener.name)
        assert list(temporary.iterdir()) == []
    assert len(listeners) == 2


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


def test_a_task_may_fork_processes_and_they_end_with_its_trainer(trainer: Trainer) -> None:
    """They inherit the lock that says that the trainer lives, so that the next one would wait for them."""
    trainer.pipe.recv_bytes()
    trainer.pipe.send_bytes(b"fork")
    child = os.pidfd_open(int(trainer.pipe.recv_bytes()))
    assert not select.select([child], [], [], 0)[0]
    trainer.kill()
    assert select.select([child], [], [], 30)[0]
    os.close(child)


def test_a_signal_to_all_processes_of_an_agent_ends_no_trainer_and_not_what_they_come_from(tmp_path: Path) -> None:
    """From birth on: what trainers are forked from sends it to itself while it imports, and a trainer to the group."""
    (tmp_path / "signalled.py").write_text(
        """if True:
        import os, signal
        for number in (signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)

        def shout(pipe, birth):
            for number in (signal.SIGTERM, signal.SIGINT):
                os.killpg(os.getpgid(0), number)
            pipe.send_bytes(str(os.getppid()).encode())
        """
    )
    code = """if True:
        import signal, sys
        from pathlib import Path
        from regroup.worker.nursery import Nursery
        heard = set()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: heard.add(number))
        nursery = Nursery("w0", "127.0.0.1", Path(sys.argv[1]), 1, "signalled:shout")
        servers = set()
        for _ in range(2):
            nursery.keep_spare()
            servers.add(nursery.take().pipe.recv_bytes())
        print(len(servers), sorted(heard) == sorted((signal.SIGTERM, signal.SIGINT)))
    """
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", code, tmp_path]
    said = subprocess.run(command, env=environ, stdout=subprocess.PIPE, start_new_session=True, check=True, timeout=60)
    assert said.stdout.decode() == "1 True\n"


def test_a_task_ends_its_own_processes_as_anywhere(trainer: Trainer) -> None:
    trainer.pipe.recv_bytes()
    trainer.pipe.send_bytes(b"terminate")
    for _ in ("fork", "spawn"):
        assert trainer.pipe.poll(60)
        assert int(trainer.pipe.recv_bytes()) == -signal.SIGTERM


def test_a_task_may_have_a_fork_server_of_its_own(trainer: Trainer) -> None:
    """Nothing of the agent's is in its way. What comes of it ends in good order, or by somebody else."""
    trainer.pipe.recv_bytes()
    trainer.pipe.send_bytes(b"forkserver")
    assert trainer.pipe.poll(30)
    os.kill(int(trainer.pipe.recv_bytes()), signal.SIGKILL)
    assert multiprocessing.connection.wait([trainer.process.sentinel], timeout=30)
    assert trainer.bury() == "exit status 5"


def test_a_nursery_whose_fork_server_is_out_of_reach_says_so(tmp_path: Path) -> None:
    code = """if True:
        import shutil, sys
        from pathlib import Path
        from regroup.worker.nursery import BirthFailed, Nursery
        nursery = Nursery("w0", "127.0.0.1", Path(sys.argv[1]), 1, "test_nursery:tell")
        nursery.take()
        shutil.rmtree(Path(sys.argv[1]) / "run" / "w0.sockets")
        try:
            nursery.keep_spare()
        except BirthFailed as error:
            print(error)
    """
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    said = subprocess.run([sys.executable, "-c", code, tmp_path], env=environ, stdout=subprocess.PIPE, check=True)
    assert said.stdout.decode().startswith("cannot start a trainer: FileNotFoundError: ")
