"""The command line against the real API: what it prints, where, and how it ends."""

import io
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest

from regroup.client import Client, cli, terminal, watch
from regroup.client.printable import PlainConsole
from regroup.core.jobs import Checkpoint, Formation, JobPhase, Member, Seat, StepPoint, Version, Wanted
from regroup.core.messages.commands import StopJob
from regroup.core.notes import Note
from regroup.core.spec import JobSpec


@pytest.fixture
def run(capsys, monkeypatch):
    """Runs `regroup ...` in this process: (exit code, standard output, standard error)."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["regroup", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capsys.readouterr()
        return end.value.code, out, err

    return run


@pytest.fixture
def submitted(run, served):
    code, out, _ = run("submit", "digits", "--steps", "5", "--name", "mine")
    assert code == 0
    return out.strip()


@pytest.fixture
def training(run, served, submitted):
    """A job that regrouped at step 5 of 9."""
    formation = Formation(1, (Seat(Member("w0", "a"), Version(0, 5)),), 0, Version(0, 5), (0, 0, 0, 0), "store")
    job = replace(
        served.desk.cluster.jobs[submitted],
        spec=JobSpec(task="digits", steps=9),
        phase=JobPhase.REGROUPING,
        reason="from step 5 on w0",
        formation=formation,
        generation=1,
        step=5,
    )
    served.desk.cluster = replace(served.desk.cluster, jobs={submitted: job})
    return submitted


def test_every_field_is_an_option(run, served):
    code, out, _ = run(
        *("submit", "gpt", "-n", "x", "--epochs", "2", "--global-batch", "32", "--shards", "8", "--micro-batch", "2"),
        *("--seed", "7", "--min-workers", "1", "--max-workers", "2", "--evaluate-every", "5", "--step-timeout", "9.5"),
        *("--checkpoint-every", "6", "--keep-last", "2", "--keep-best", "1"),
        *("--max-restarts", "1", "-o", "lr=1e-3", "-o", "text=no", "-o", "layers=[1, 2]", "-o", "tied=true", "--json"),
    )
    assert code == 0
    assert json.loads(out)["spec"] == {
        "task": "gpt",
        "name": "x",
        "options": {"lr": 0.001, "text": "no", "layers": [1, 2], "tied": True},
        "steps": None,
        "epochs": 2,
        "global_batch": 32,
        "shards": 8,
        "micro_batch": 2,
        "seed": 7,
        "min_workers": 1,
        "max_workers": 2,
        "evaluate_every": 5,
        "checkpoint_every": 6,
        "keep_last": 2,
        "keep_best": 1,
        "step_timeout": 9.5,
        "max_restarts": 1,
        "begin_from": None,
    }


@pytest.fixture
def keeper(served, submitted):
    """A job that keeps the checkpoints of steps 4 and 2."""
    newest, older = (Checkpoint(Version(1, step), f"/c/{submitted}/s{step}", "sum", 1) for step in (4, 2))
    job = replace(served.desk.cluster.jobs[submitted], checkpoint=newest, older=(older,), phase=JobPhase.PAUSED)
    served.desk.cluster = replace(served.desk.cluster, jobs={submitted: job})
    return submitted


@pytest.mark.parametrize(("given", "step"), [("", 4), ("@2", 2)])
def test_a_job_begins_from_the_beginning_of_another_ones_name(run, served, keeper, given, step):
    code, out, _ = run("submit", "digits", "--steps", "9", "--begin-from", keeper[2:7] + given, "--json")
    told = json.loads(out)
    assert (code, told["step"], told["samples"]) == (0, step, 0)
    assert told["beginning"] == {"job": keeper, "step": step, "path": f"/c/{keeper}/s{step}"}
    code, out, _ = run("job", told["id"])
    assert f"at step {step}, from job {keeper}: /c/{keeper}/s{step}" in " ".join(out.split())


def test_a_checkpoint_that_no_job_can_begin_from_is_refused_by_its_field(run, served, keeper):
    code, out, err = run("submit", "digits", "--steps", "4", "--seed", "7", "--begin-from", keeper)
    assert (code, out) == (1, "")
    assert err.splitlines() == [
        "regroup: the job cannot begin from that checkpoint",
        "  seed: is 7, and the checkpoint's job has 0: they must be the same",
        "  steps: must lead beyond step 4, where it begins: it leads to step 4",
    ]
    code, _, err = run("submit", "digits", "--steps", "9", "--begin-from", f"{keeper}@3")
    assert code == 1
    assert f"begin_from.step: job {keeper} keeps no checkpoint of step 3; it keeps those of steps 4, 2" in err


@pytest.mark.parametrize("given", ["", "@3", "k3v@", "k3v@x", "k3v@-1"])
def test_a_beginning_is_a_job_and_a_step(run, served, given):
    code, out, err = run("submit", "digits", "--steps", "4", "--begin-from", given)
    assert (code, out) == (2, "")
    assert f"--begin-from {given}: write JOB or JOB@STEP" in err


def test_a_file_gives_the_fields_and_options_come_on_top(run, served, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text("task: gpt\nsteps: 10\nname: 'no'\noptions: {lr: 1e-3, path: 2024-01-01}\n")
    code, out, _ = run("submit", "-f", str(file), "--steps", "20", "--option", "heads=2", "--json")
    spec = json.loads(out)["spec"]
    assert code == 0
    assert (spec["steps"], spec["name"]) == (20, "no")
    assert spec["options"] == {"lr": 0.001, "path": "2024-01-01", "heads": 2}


@pytest.mark.parametrize("content", ["- a list\n", "a: [1\n", "just words", "", "1: 2"])
def test_a_file_that_is_no_job_is_refused_by_name(run, served, tmp_path, content):
    file = tmp_path / "job.yaml"
    file.write_text(content)
    code, out, err = run("submit", "-f", str(file))
    assert (code, out) == (2, "")
    assert str(file) in err
    assert len(err.splitlines()) == 1


def test_a_wrong_field_is_told_with_its_name_and_exit_code_2(run, served):
    code, out, err = run("submit", "digits", "--steps", "1", "--shards", "7", "-o", "lr=.nan")
    assert (code, out) == (2, "")
    assert "options.lr: must be a finite number" in err
    code, _, err = run("submit", "digits", "--steps", "1", "--shards", "7")
    assert code == 2
    assert "  shards: must divide global_batch" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("submit",),
        ("submit", "a", "--task", "b"),
        ("submit", "digits", "-o", "lr"),
        ("submit", "digits", "--steps", "x"),
        ("jobs", "--bogus"),
        ("bogus",),
        ("submit", "-f", "/none/such"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_nothing_on_standard_output(run, served, arguments):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.strip()
    assert "Traceback" not in err


@pytest.mark.parametrize("given", ["--learning-rate", "--learning-rate=0.1"])
def test_an_option_of_the_task_among_our_own_is_told_where_it_belongs(run, served, given):
    code, out, err = run("submit", "gpt", given)
    assert (code, out) == (2, "")
    assert err.endswith("--learning-rate; an option of the task is given as -o learning_rate=VALUE\n")
    assert "Possible options" in run("submit", "gpt", "--step", "3")[2]
    assert served.desk.cluster.jobs == {}


def test_jobs_are_listed_in_plain_text_and_json(run, submitted):
    code, out, _ = run("jobs")
    assert code == 0
    assert "\x1b" not in out
    head, row = out.splitlines()
    assert head.split()[:4] == ["job", "name", "task", "phase"]
    assert row.split()[:5] == [submitted, "mine", "digits", "queued", "0/5"]
    assert not any(line.endswith(" ") for line in out.splitlines())
    assert [job["id"] for job in json.loads(run("jobs", "--json")[1])] == [submitted]


@pytest.mark.parametrize("part", [slice(None), slice(0, 5), slice(2, 6)])
def test_enough_of_an_id_names_a_job(run, submitted, part):
    code, out, _ = run("job", submitted[part], "--json")
    assert (code, json.loads(out)["id"]) == (0, submitted)
    assert submitted in run("job", submitted[part])[1]


def test_an_ambiguous_beginning_is_refused_naming_the_candidates(run, submitted):
    other = run("submit", "digits", "--steps", "5")[1].strip()
    code, _, err = run("job", "j-")
    assert code == 2
    assert submitted in err
    assert other in err


def test_a_whole_id_is_asked_for_alone(client):
    id, asked = client.submit(task="digits", steps=5).id, []
    client._transport._http[0].event_hooks = {"request": [lambda request: asked.append(request.url.path)]}
    assert terminal.job_id(client, id) == id
    assert asked == [f"/v1/jobs/{id}"]
    assert terminal.job_id(client, id[2:]) == id
    assert asked[1:] == ["/v1/jobs"]


def test_what_a_job_writes_does_not_steer_the_terminal(run, served, submitted):
    job = served.desk.cluster.jobs[submitted]
    hostile = "\x1b]0;mine\x07\x1b[2J"
    failed = replace(
        job,
        phase=JobPhase.FAILED,
        reason=f"r{hostile}\n12:00:00  forged",
        error=f"Traceback{hostile}\n  line 2",
        result={f"key{hostile}": f"value{hostile}"},
        refused={"w1": f"why{hostile}"},
    )
    served.desk.cluster = replace(served.desk.cluster, jobs={submitted: failed})
    note = Note("failed", failed.reason, job=submitted)
    served.do(served.desk.store.save(served.desk._fence, (), (), notes=(note,), at=1.0))
    shown = [run(*words)[1] for words in (("job", submitted), ("jobs",), ("events", submitted))]
    assert all("forged" in each for each in shown)
    assert not set("\x1b\x07") & set("".join(shown))
    assert re.search(r"\nTraceback\?\]0;mine\?+\[2J\n  line 2\n", shown[0])
    assert len(shown[2].splitlines()) == 2, "an event is one line"


@pytest.mark.parametrize(
    "arguments",
    [
        ("job", "x1"),
        ("stop", "x1"),
        ("events", "x1"),
        ("worker", "x1"),
        ("clear", "x1"),
        ("drain", "x1"),
        ("admit", "x1"),
    ],
)
def test_what_is_not_there_ends_with_3_and_one_line(run, served, arguments):
    code, out, err = run(*arguments)
    assert (code, out) == (3, "")
    assert len(err.splitlines()) == 1
    assert "x1" in err


def test_a_wrong_address_is_wrong_usage(run, served, tmp_path):
    for arguments in (("--token-file", str(tmp_path / "none"), "jobs"), ("--url", "127.0.0.1:8787", "jobs")):
        code, out, err = run(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)


def test_an_answer_that_cannot_be_written_is_told_in_one_line(served, submitted):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-c", "from regroup.client.cli import main; main()", "jobs"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "regroup: cannot go on: No space left on device\n"


def test_without_a_coordinator_one_line_says_what_to_do_and_it_ends_with_4(run, places):
    for arguments in (("jobs",), ("--url", "http://127.0.0.1:1", "jobs")):
        code, out, err = run(*arguments)
        assert (code, out) == (4, "")
        assert "regroup up" in err
        assert len(err.splitlines()) == 1


def test_a_store_that_is_away_ends_with_4(run, served):
    served.desk.ready = "the store does not answer"
    code, _, err = run("submit", "digits", "--steps", "1")
    assert (code, err) == (4, "regroup: the store does not answer\n")


def test_the_token_comes_from_a_file_or_the_environment(run, served, places, tmp_path, monkeypatch):
    places.token.unlink()
    assert run("jobs")[0] == 1
    file = tmp_path / "elsewhere"
    file.write_text(served.token + "\n")
    assert run("--token-file", str(file), "jobs")[0] == 0
    monkeypatch.setenv("REGROUP_TOKEN", served.token)
    assert run("jobs")[0] == 0
    assert run("--token-file", "/none/such", "jobs")[0] == 2


def test_a_job_is_stopped_and_stopping_it_again_says_its_state(run, submitted):
    code, out, _ = run("stop", submitted, "--wait")
    assert code == 0
    assert "stopped" in out.splitlines()[-1]
    code, out, err = run("stop", submitted)
    assert (code, out) == (1, "")
    assert "stopped" in err


def test_a_job_is_paused_and_resumed(run, submitted):
    code, out, _ = run("pause", submitted, "--wait")
    assert code == 0
    assert re.search(r"  paused +before its first step$", out), "and it is not said twice that it is paused"
    code, out, _ = run("resume", submitted)
    assert code == 0
    assert out.startswith(f"{submitted} queued: it needs a worker, ")
    assert run("resume", submitted)[:2] == (0, f"{submitted} queued: it was not paused\n")
    code, out, err = run("pause", submitted, "--hold")
    assert (code, out) == (1, "")
    assert "pause it without hold" in err


@pytest.mark.parametrize(
    ("words", "told"), [(("stop",), "asked to stop"), (("pause",), "asked to pause"), (("pause", "--hold"), "to hold")]
)
def test_a_job_that_trains_is_told_as_asked_and_not_by_what_it_did_before(run, served, training, words, told):
    code, out, _ = run(*words, training)
    assert code == 0
    assert out.startswith(f"{training} regrouping: ")
    assert out.endswith(f"{told}\n")


def test_a_job_that_trains_was_not_paused(run, training):
    assert run("resume", training)[1] == f"{training} regrouping: it was not paused\n"


def test_a_loss_that_is_no_number_is_told_with_the_timelines_advice(run, served, training):
    nan = StepPoint(4, math.nan, 8.0, 8, 0.1, 0.01)
    note = Note("diverged", "the loss of step 4 is nan: look at the learning rate", job=training)
    served.do(served.desk.store.save(served.desk._fence, (), (), notes=(note,), at=1.0))
    served.do(served.desk.store.append_points(served.desk._fence, training, (nan,)))
    assert "5/9, 56%, loss nan" in run("job", training)[1]
    job = served.desk.cluster.jobs[training]
    ended = replace(job, phase=JobPhase.STOPPED, reason="stopped at step 5", wanted=Wanted.STOP)
    served.desk.cluster = replace(served.desk.cluster, jobs={training: ended})
    reached, end, advice = watched(training)
    assert reached.endswith("stopped     step 5/9, loss nan")
    assert end.endswith("stopped     at step 5")
    assert advice == note.reason


def watched(id):
    out = io.StringIO()
    with Client() as client, pytest.MonkeyPatch.context() as patch:
        patch.setattr(watch, "console", lambda: PlainConsole(file=out, width=10_000, color_system=None))
        watch.watch(client, id, quiet=False)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 120])
def test_the_bar_of_a_watched_job_is_one_line_of_a_terminal(client, served, training, width):
    out = PlainConsole(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    job = replace(client.job(training), step=123_456, steps=1_000_000, rate=11.234, loss=0.01234)
    progress = watch.bar(out)
    progress.add_task(training, total=job.steps, completed=job.step, job=job)
    out.print(progress)
    (line,) = out.file.getvalue().splitlines()
    assert "regrouping" in line
    assert " 123456/1000000, 1/1 workers, 11.2 steps/s, loss 0.01234" in line
    assert len(line.rstrip()) <= width


def test_waiting_watches_the_job_to_its_end_in_lines(run, served):
    def stop_it():
        while not served.desk.cluster.jobs:
            pass
        served.do(served.desk.command(StopJob(next(iter(served.desk.cluster.jobs)))))

    stopper = threading.Thread(target=stop_it)
    stopper.start()
    code, out, _ = run("submit", "digits", "--steps", "5", "--wait")
    stopper.join()
    assert code == 1, "it was asked to complete"
    first, *_, last = out.splitlines()
    assert first.startswith("submitted j-")
    assert "stopped" in last
    assert "\x1b" not in out


def test_the_timeline_is_one_line_per_event_and_json_lines(run, submitted):
    run("stop", submitted)
    lines = run("events", submitted)[1].splitlines()
    assert [line.split()[2] for line in lines] == ["submitted", "stopped"]
    followed = run("events", "--follow", submitted, "--json")[1].splitlines()
    assert [json.loads(line)["kind"] for line in followed] == ["submitted", "stopped"]


@pytest.mark.parametrize(("last", "kinds"), [(0, []), (1, ["stopped"]), (9, ["submitted", "stopped"])])
@pytest.mark.parametrize("follow", [(), ("--follow",)])
def test_of_the_timeline_only_the_last_events_are_shown_if_that_is_asked(run, submitted, last, kinds, follow):
    run("stop", submitted)
    lines = run("events", submitted, "--last", str(last), "--json", *follow)[1].splitlines()
    assert [json.loads(line)["kind"] for line in lines] == kinds


def test_what_happens_meanwhile_is_none_of_the_last_events(run, served, submitted, monkeypatch):
    store, fence = served.desk.store, served.desk._fence
    read = store.events

    async def busy(*asked):
        found = await read(*asked)
        await store.save(fence, (), (), notes=(Note("halt", "while it is read", job=submitted),), at=1.0)
        return found

    monkeypatch.setattr(store, "events", busy)
    assert len(run("events", submitted, "-n", "1")[1].splitlines()) == 1


def test_workers_are_listed_shown_and_cleared(run, served):
    assert run("workers")[1] == "no workers\n"
    served.do(served.desk.register("w1"))
    assert run("workers")[1].splitlines()[1].split()[:3] == ["w1", "cpu", "healthy"]
    assert "healthy" in run("worker", "w1")[1]
    assert json.loads(run("worker", "w1", "--json")[1])["name"] == "w1"
    assert run("clear", "w1")[:2] == (0, "w1 is cleared: cleared by its operator\n")


def test_a_worker_is_drained_which_its_row_shows_and_admitted_again(run, served):
    served.do(served.desk.register("w1"))
    assert run("drain", "w1", "--wait")[:2] == (0, "w1 is drained: it has nothing to do any more\n")
    assert run("workers")[1].splitlines()[1].split()[:3] == ["w1", "cpu", "drained"]
    assert json.loads(run("admit", "w1", "--json")[1])["drained"] is False
    assert run("workers")[1].splitlines()[1].split()[:3] == ["w1", "cpu", "healthy"]
    assert run("admit", "w1")[:2] == (0, "w1 was not drained\n")
    run("drain", "w1")
    assert run("admit", "w1")[:2] == (0, "w1 is admitted: admitted by its operator\n")


@pytest.mark.parametrize("name", ["../jobs", "..", "a/b"])
def test_what_is_no_name_of_a_worker_is_refused_by_its_name(run, served, name):
    assert run("drain", name) == (3, "", f"regroup: {name} names no job and no worker\n")


@pytest.mark.parametrize("id", ["", " "])
def test_an_empty_id_is_that_of_no_job(run, served, id):
    for command in (("job", id), ("stop", id)):
        assert run(*command) == (3, "", "regroup: an empty id is that of no job; `regroup jobs` lists them\n")


def test_help_names_the_exit_codes_and_all_commands(run):
    code, out, _ = run("--help")
    assert code == 0
    assert "130  interrupted" in out
    for command in ("submit", "jobs", "job", "events", "stop", "workers", "worker", "clear", "drain", "admit"):
        assert f"\n  {command} " in out


@pytest.mark.parametrize("command", [(), ("bench",), ("submit",)])
def test_help_fits_into_a_terminal_and_cuts_no_summary_off(run, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    lines = run(*command, "--help")[1].splitlines()
    assert lines[0].startswith("Usage: regroup")
    assert [line for line in lines if len(line) > 80 or (line.endswith("...") and "[ARGS]" not in line)] == []


@pytest.mark.parametrize(
    ("command", "argument"), [("submit", "[TASK]"), ("job", "{JOB}"), ("events", "[JOB]"), ("worker", "{WORKER}")]
)
def test_an_argument_is_a_word_in_capitals(run, command, argument):
    assert run(command, "--help")[1].splitlines()[0] == f"Usage: regroup {command} [OPTIONS] {argument}"


def test_the_version_is_told(run):
    assert run("--version")[:2] == (0, f"regroup {cli.version('regroup')}\n")


def test_commands_of_other_parts_are_found_and_a_broken_one_harms_no_other(run, served, monkeypatch, tmp_path):
    (tmp_path / "parts_for_tests.py").write_text(
        "import typer\n"
        "app = typer.Typer()\n"
        "@app.command()\n"
        "def one(n: int): print('one', n)\n"
        "@app.command()\n"
        "def two(): print('two')\n"
        "def lone(name: str, loud: bool = False): print('lone', name, loud)\n"
    )
    (tmp_path / "broken_for_tests.py").write_text("import no_such_module_anywhere\n")
    monkeypatch.syspath_prepend(tmp_path)
    entries = {
        name: EntryPoint(name, value, cli.GROUP)
        for name, value in {
            "parts": "parts_for_tests:app",
            "lone": "parts_for_tests:lone",
            "broken": "broken_for_tests:app",
        }.items()
    }
    monkeypatch.setattr(cli, "_further", lambda: entries)
    assert run("parts", "one", "3")[:2] == (0, "one 3\n")
    assert run("lone", "a", "--loud")[:2] == (0, "lone a True\n")
    code, out, err = run("broken", "--with", "anything")
    assert (code, out) == (1, "")
    assert "no_such_module_anywhere" in err
    assert len(err.splitlines()) == 1
    assert run("jobs")[0] == 0
    for name in ("parts", "lone", "broken"):
        assert re.search(rf"^  {name}\b", run("--help")[1], re.MULTILINE)


def test_interrupting_a_followed_timeline_ends_with_130(served, submitted):
    command = [sys.executable, "-c", "from regroup.client.cli import main; main()", "events", "--follow"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
    assert submitted in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in err


def test_the_cluster_is_shown_with_its_leader_and_as_json_like_all_else(run, served, submitted):
    served.do(served.desk.store.acquire("host a, pid 1", 3600.0))
    code, out, _ = run("cluster")
    told = dict(line.split("  ", 1) for line in out.splitlines())
    assert code == 0
    assert told["standby"].strip() == "none"
    assert told["jobs"].strip() == "1 queued"
    assert served.url in told["leads"]
    assert "leader" in told
    code, out, _ = run("cluster", "--json")
    assert (code, json.loads(out)["standbys"]) == (0, [])
    assert json.loads(out)["leader"]
