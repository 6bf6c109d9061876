"""The command line from end to end: a job's whole life, what is written into a pipe, and exit codes."""

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.cluster

QUICK = ("--steps", "3", "--global-batch", "8")
LONG = ("--steps", "10000", "--global-batch", "8")


@pytest.fixture(autouse=True)
def _nothing_left(served: Any) -> Any:
    yield
    served.stop_all()


def run(served: Any, *arguments: str, code: int = 0, **more: Any) -> str:
    """What the command wrote to its output, which has no colours."""
    done = served.cli(*arguments, **more)
    assert done.returncode == code, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


def test_a_job_by_options_is_submitted_watched_and_listed(served: Any) -> None:
    said = run(served, "submit", "faulty:Slow", *QUICK, "-n", "by options", "--max-workers", "2", "--wait")
    first, *_, last = said.splitlines()
    id = first.split()[1].rstrip(";")
    assert first == f"submitted {id}; Ctrl-C ends the watching, not the job"
    assert re.search(r"  completed +at step 3; its state is in ", last)

    assert "by options" in run(served, "jobs")
    sheet = run(served, "job", id)
    assert sheet.startswith(f"{id}  by options\n")
    assert "3/3, 100%" in sheet
    assert run(served, "job", id.removeprefix("j-")[:6]).startswith(id), "enough of its beginning names it"
    kinds = [line.split()[2] for line in run(served, "events", id).splitlines() if id in line]
    assert kinds[0] == "submitted"
    assert kinds[-1] == "completed"


def test_a_job_from_a_file_takes_options_on_top(served: Any, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("task: faulty:Sound\nname: from a file\nsteps: 100000\nglobal_batch: 8\noptions: {bad: -1}\n")
    job = json.loads(run(served, "submit", "-f", str(file), "--steps", "2", "--wait", "--json"))
    assert (job["phase"], job["name"], job["step"]) == ("completed", "from a file", 2)
    assert job["spec"]["options"] == {"bad": -1}
    id = run(served, "submit", "-f", "-", input=file.read_text()).strip()
    assert served.client.job(id).steps == 100_000


def test_every_command_answers_in_json(served: Any) -> None:
    submitted = json.loads(run(served, "submit", "faulty:Slow", *QUICK, "--json"))
    id = submitted["id"]
    served.ended(served.client.job(id))
    assert json.loads(run(served, "job", id, "--json"))["phase"] == "completed"
    assert id in [job["id"] for job in json.loads(run(served, "jobs", "--json"))]
    events = [json.loads(line) for line in run(served, "events", id, "--json").splitlines()]
    assert {event["job"] for event in events} == {id}
    assert [json.loads(line) for line in run(served, "events", id, "--follow", "--json").splitlines()] == events
    assert {worker["name"] for worker in json.loads(run(served, "workers", "--json"))} == {"w0", "w1"}
    assert json.loads(run(served, "worker", "w1", "--json"))["healthy"]
    assert json.loads(run(served, "clear", "w1", "--json"))["errors"] == 0
    long = served.submit("faulty:Slow", steps=10_000)
    assert json.loads(run(served, "stop", long.id, "--wait", "--json"))["phase"] == "stopped"


def test_a_running_job_is_stopped_with_a_checkpoint_and_a_second_stop_is_refused(served: Any) -> None:
    job = served.after(served.submit("faulty:Slow", steps=10_000, max_workers=2), 3)
    last = run(served, "stop", job.id, "--wait").splitlines()[-1]
    stopped = served.client.job(job.id)
    assert stopped.phase == "stopped"
    assert f"stopped     at step {stopped.step}; its state is in {stopped.checkpoint.path}" in last
    assert stopped.step >= 3
    assert Path(stopped.checkpoint.path).stat().st_size == stopped.checkpoint.bytes
    assert run(served, "stop", job.id, code=1) == f"regroup: job {job.id} is stopped already\n"


def test_a_job_that_somebody_stops_ends_its_watching_with_exit_code_1(served: Any) -> None:
    with served.cli.started("submit", "faulty:Slow", *LONG, "--wait") as watching:
        id = watching.stdout.readline().split()[1].rstrip(";")
        run(served, "stop", id, "--wait")
        assert "stopped" in watching.communicate(timeout=20)[0].splitlines()[-1]
    assert watching.returncode == 1


def test_a_queued_job_is_stopped_at_once(served: Any) -> None:
    job = served.submit("faulty:Sound", min_workers=3, max_workers=3)
    assert run(served, "stop", job.id) == f"{job.id} stopped: before its first step\n"


def test_a_failed_job_ends_its_watching_with_exit_code_1(served: Any) -> None:
    done = served.cli("submit", "faulty:Empty", *QUICK, "--wait")
    assert done.returncode == 1
    failed = done.stdout.splitlines()[-1]
    assert "its dataset is empty" in failed, "and of a traceback that there is not, nothing is said"
    done = served.cli("submit", "faulty:RaisesWhenConstructed", *QUICK, "--wait")
    assert done.returncode == 1
    failed, hint = done.stdout.splitlines()[-2:]
    assert "no licence for this task" in failed
    job = re.search(r"`regroup job (j-\w+)` shows the error in full", hint)
    assert job
    assert "raise RuntimeError" in served.cli("job", job[1]).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["job", "j-nothing"], 3, "regroup: there is no job j-nothing\n"),
        (["stop", "j-nothing"], 3, "regroup: there is no job j-nothing\n"),
        (["events", "j-nothing"], 3, "regroup: there is no job j-nothing\n"),
        (["worker", "nobody"], 3, "regroup: there is no worker nobody\n"),
        (["clear", "nobody"], 3, "regroup: there is no worker nobody\n"),
        (
            ["submit", "faulty:Sound"],
            2,
            "regroup: the request is not valid\n  steps: give exactly one of steps and epochs\n",
        ),
        (
            ["submit", "gpt", "--steps", "3", "-o", "learning_rate=.nan"],
            2,
            "regroup: the request is not valid\n  options.learning_rate: must be a finite number\n",
        ),
        (
            ["submit", "gpt", "--steps", "3", "--shards", "7"],
            2,
            "  shards: must divide global_batch: 64 is no multiple of 7",
        ),
        (
            ["submit", "-f", "/nowhere/job.yaml"],
            2,
            "regroup: cannot read /nowhere/job.yaml: No such file or directory\n",
        ),
        (["submit"], 2, "regroup: name a task"),
        (["jobs", "--url", "http://127.0.0.1:1"], 2, "regroup: --url goes before the command: regroup --url ... jobs"),
        (["submit", "gpt", "--token-file=t"], 2, "--token-file goes before the command"),
        (["--url", "http://127.0.0.1:1", "jobs"], 4, "regroup: no coordinator answers at http://127.0.0.1:1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_goes_wrong_is_one_line_and_an_exit_code(arguments: list[str], code: int, said: str, served: Any) -> None:
    assert said in run(served, *arguments, code=code)


def test_without_a_coordinator_the_exit_code_is_4(tmp_path: Path, cli_for: Any) -> None:
    done = cli_for(tmp_path)("jobs")
    assert done.returncode == 4
    assert done.stderr == (
        f"regroup: no coordinator runs from {tmp_path}; start one with `regroup up`, "
        "or name another one's with REGROUP_DATA_DIR, or its URL with --url or REGROUP_URL\n"
    )


def test_a_wrong_token_is_refused(served: Any, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("not-it")
    refused = served.cli("--token-file", str(tmp_path / "token"), "jobs")
    assert refused.returncode == 1
    assert refused.stderr == (
        "regroup: the bearer token is not the one of this coordinator; "
        "it is in the file token of the coordinator's data directory, if it was given no REGROUP_TOKEN; "
        "the command line takes it from REGROUP_TOKEN, or by --token-file\n"
    )
    (tmp_path / "token").write_text("not it")
    assert served.cli("--token-file", str(tmp_path / "token"), "jobs").returncode == 2


def test_a_followed_timeline_ends_by_ctrl_c(served: Any) -> None:
    job = served.submit("faulty:Slow", steps=10_000)
    with served.cli.started("events", job.id, "--follow") as following:
        assert "submitted" in following.stdout.readline()
        following.send_signal(signal.SIGINT)
        _, complaint = following.communicate(timeout=10)
    assert following.returncode == 130
    assert "Traceback" not in complaint
    assert not served.client.job(job.id).ended


def test_ctrl_c_ends_the_watching_and_not_the_job(served: Any) -> None:
    with served.cli.started("submit", "faulty:Slow", *LONG, "--wait") as watching:
        id = watching.stdout.readline().split()[1].rstrip(";")
        assert re.search(r"  (queued|preparing|running)  ", watching.stdout.readline())
        watching.send_signal(signal.SIGINT)
        _, complaint = watching.communicate(timeout=10)
    assert watching.returncode == 130
    assert "Traceback" not in complaint
    assert not served.client.job(id).ended


def test_a_reader_that_leaves_early_gets_no_complaint(served: Any) -> None:
    served.all_serve()
    with served.cli.started("events", "--follow", "--json") as following:
        following.stdout.readline()
        following.stdout.close()
        served.all_serve()
        following.wait(timeout=10)
        assert "Traceback" not in following.stderr.read()
