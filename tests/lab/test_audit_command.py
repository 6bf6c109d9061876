"""`regroup audit` against the real API: where claim and records come from, and how it ends."""

import importlib.util
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer

from regroup.client import Client, terminal
from regroup.core.jobs import Checkpoint, Fingerprint, Formation, Job, JobPhase, Link, Member, Seat, Version, Wanted
from regroup.core.notes import Note
from regroup.core.spec import JobSpec
from regroup.lab.audit import audit_job
from regroup.lab.audit.command import audit, claim_of

_spec = importlib.util.spec_from_file_location(
    "desk_of_the_api_tests", Path(__file__).parents[1] / "coordinator" / "api" / "desk.py"
)
desk_of_the_tests = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(desk_of_the_tests)

JOB = Job(
    id="j-abc",
    spec=JobSpec(task="digits", steps=2, global_batch=2, shards=2),
    submitted=0.0,
    phase=JobPhase.COMPLETED,
    generation=3,
    history=(Link(1, 0, 0), Link(2, 1, 1)),
    fingerprint=Fingerprint("c", "d", 4),
    checkpoint=Checkpoint(Version(2, 2), "/checkpoints/2", "0", 1),
    step=2,
)
WROTE = {
    "w0-a.jsonl": [
        {"read": 0, "generation": 1, "epoch": 0, "shard": 0, "indices": [3]},
        {"applied": 0, "generation": 1},
        {"read": 1, "generation": 2, "epoch": 0, "shard": 0, "indices": [1]},
        {"read": 1, "generation": 2, "epoch": 0, "shard": 1, "indices": [2]},
        {"applied": 1, "generation": 2},
    ],
    "w1-a.jsonl": [
        {"read": 0, "generation": 1, "epoch": 0, "shard": 1, "indices": [0]},
        {"applied": 0, "generation": 1},
    ],
}
RECORDS = {file: "".join(f"{json.dumps(line)}\n" for line in lines) for file, lines in WROTE.items()}


@pytest.fixture(scope="module")
def server():
    server = desk_of_the_tests.Served()
    yield server
    server.stop()


@pytest.fixture
def desk(server, monkeypatch):
    """A coordinator that knows one finished job, and whose workers have its records."""
    for name in [name for name in os.environ if name.startswith("REGROUP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("REGROUP_URL", server.url)
    monkeypatch.setenv("REGROUP_TOKEN", server.token)
    server.renew()
    desk = server.desk
    desk.cluster = replace(desk.cluster, jobs={JOB.id: JOB})
    desk.pieces = [(file, text[start : start + 50]) for file, text in RECORDS.items() for start in range(0, 500, 50)]
    return desk


@pytest.fixture
def run(desk, capsys, monkeypatch):
    """Runs `audit ...` in this process: (exit code, standard output, standard error)."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(audit)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["audit", *arguments])
        with pytest.raises(SystemExit) as end:
            app()
        return (end.value.code, *capsys.readouterr())

    return run


def test_an_exact_job_is_one_line_and_success(run):
    code, out, err = run("abc")
    assert (code, err) == (terminal.OK, "")
    assert out == "j-abc: 4 samples in 2 steps over 2 generations, each exactly once\n"


def test_a_job_that_is_not_exact_says_why_and_fails(run, desk):
    desk.pieces = [piece for piece in desk.pieces if piece[0] != "w1-a.jsonl"]
    code, out, _ = run("j-abc")
    assert code == terminal.FAILED
    first, second, *_ = out.splitlines()
    assert first == "j-abc: 3 samples in 2 steps over 2 generations: NOT EXACT, 1 lost, 0 doubled"
    assert second == "  step 0 of generation 1: nobody wrote to have read shard 1"


def test_json_has_every_number(run):
    code, out, _ = run("j-abc", "--json")
    assert code == terminal.OK
    said = json.loads(out)
    assert said.pop("summary").startswith("4 samples")
    assert said == {
        "ok": True,
        "steps": 2,
        "generations": 2,
        "epochs": 1,
        "samples": 4,
        "lost": 0,
        "doubled": 0,
        "missing_records": 0,
        "void_steps": 0,
        "faults": [],
    }


@pytest.mark.parametrize("below", ["", "j-abc", "records/j-abc"])
def test_records_can_be_read_from_a_folder(run, desk, tmp_path, below):
    desk.pieces = []
    folder = tmp_path / below
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in RECORDS.items():
        (folder / file).write_text(text)
    assert run("j-abc", "--folder", str(tmp_path))[0] == terminal.OK


def test_a_folder_without_records_is_bad_usage(run, tmp_path):
    code, _, err = run("j-abc", "--folder", str(tmp_path))
    assert code == terminal.USAGE
    assert f"no records (*.jsonl) in {tmp_path}" in err


def test_the_records_of_another_job_are_refused_by_its_name(run, tmp_path):
    (tmp_path / "j-other").mkdir()
    for file, text in RECORDS.items():
        (tmp_path / "j-other" / file).write_text(text)
    code, out, err = run("j-abc", "--folder", str(tmp_path / "j-other"))
    assert (code, out) == (terminal.USAGE, "")
    assert err == f"regroup: these records are of another job: {tmp_path}/j-other is of j-other, not of j-abc\n"


def test_the_timeline_tells_who_formed_a_generation(server, desk):
    formed = Note("form", "why", job=JOB.id, worker=None, data={"generation": 1, "workers": ["w0", "w1"]})
    server.do(desk.store.acquire("tests", 3600.0))
    # What a job that pauses goes back to is formed by nobody.
    rested = Note("rolled_back", "why", job=JOB.id, worker=None, data={"generation": 3, "base_step": 0})
    server.do(desk.store.save(1, (JOB,), (), notes=(formed, rested), at=1.0))
    with Client() as client:
        claim = claim_of(client.job(JOB.id), client.events(JOB.id))
    assert claim.workers == {1: frozenset({"w0", "w1"})}


def test_a_job_that_runs_is_claimed_up_to_its_committed_step(server, desk):
    running = replace(JOB, phase=JobPhase.RUNNING, checkpoint=None, step=1)
    desk.cluster = replace(desk.cluster, jobs={JOB.id: running})
    with Client() as client:
        found = audit_job(client, JOB.id)
    assert (found.ok, found.steps, found.void_steps) == (True, 1, 0)


def resumed(**more):
    """Paused and saved after its first step, resumed, and two steps further: trains in generation 2."""
    members = Formation(2, (Seat(Member("w0", "a"), Version(1, 1)),), 0, Version(1, 1), (0, 0), "store")
    paused = Checkpoint(Version(1, 1), "/checkpoints/1", "0", 1)
    return replace(JOB, phase=JobPhase.RUNNING, formation=members, checkpoint=paused, step=2, **more)


def test_a_job_that_trains_after_a_pause_is_claimed_up_to_its_committed_step(run, desk):
    desk.cluster = replace(desk.cluster, jobs={JOB.id: resumed()})
    code, out, _ = run("abc")
    assert code == terminal.OK
    assert out == "j-abc: 4 samples in 2 steps over 2 generations, each exactly once\n"
    desk.pieces = [(file, text) for file, text in RECORDS.items() if file != "w0-a.jsonl"]
    assert run("abc")[0] == terminal.FAILED


def test_what_a_held_job_has_in_memory_counts_and_an_older_checkpoint_does_not(run, desk):
    held = resumed(wanted=Wanted.HOLD)
    desk.cluster = replace(desk.cluster, jobs={JOB.id: replace(held, phase=JobPhase.PAUSED)})
    assert "4 samples in 2 steps" in run("abc")[1]


def test_what_lies_beyond_the_checkpoint_of_a_job_that_rests_is_void(run, desk):
    rests = resumed(wanted=Wanted.PAUSE)
    desk.cluster = replace(desk.cluster, jobs={JOB.id: replace(rests, phase=JobPhase.PAUSED, formation=None, step=1)})
    code, out, _ = run("abc")
    assert (code, out) == (
        terminal.OK,
        "j-abc: 2 samples in 1 step over 1 generation, each exactly once; 1 void step discarded\n",
    )


def test_a_job_that_waits_for_its_turn_after_a_pause_may_be_formed_while_its_records_are_read(run, desk):
    queued = replace(resumed(), phase=JobPhase.QUEUED, formation=None, history=JOB.history[:1], step=1)
    desk.cluster = replace(desk.cluster, jobs={JOB.id: queued})
    assert run("abc")[:2] == (terminal.OK, "j-abc: 2 samples in 1 step over 1 generation, each exactly once\n")


def test_a_generation_begins_with_all_steps_of_its_state(run, desk):
    forms = replace(resumed(), phase=JobPhase.REGROUPING, step=0)
    desk.cluster = replace(desk.cluster, jobs={JOB.id: forms})
    assert run("abc")[:2] == (terminal.OK, "j-abc: 2 samples in 1 step over 1 generation, each exactly once\n")
