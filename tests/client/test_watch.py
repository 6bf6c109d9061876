"""What of a job is worth a line to whoever watches it."""

import io
from dataclasses import replace

from regroup.client.printable import PlainConsole
from regroup.client.watch import Lines
from regroup.core.jobs import JobPhase


def test_a_worker_that_may_not_take_part_is_told_once_and_why(client):
    out = PlainConsole(width=200, record=True, file=io.StringIO())
    lines = Lines(out)
    job = replace(client.submit(task="digits", steps=5), phase=JobPhase.RUNNING, reason="started", refused={})
    seen = [job, replace(job, refused={"w1": "its\ndataset"}), replace(job, refused={"w1": "its\ndataset", "w2": "x"})]
    for each in (*seen, seen[-1]):
        lines.show(each)
    told = [line.split(maxsplit=1)[1].rstrip() for line in out.export_text().splitlines()]
    assert told == ["running     started", "running     without w1: its dataset", "running     without w2: x"]


def test_a_phase_and_its_reason_are_told_when_they_change_and_each_tenth_of_the_way(client):
    out = PlainConsole(width=200, record=True, file=io.StringIO())
    lines = Lines(out)
    job = replace(client.submit(task="digits", steps=20), phase=JobPhase.RUNNING, reason="started", refused={})
    for step in range(8):
        lines.show(replace(job, step=step, progress=step / 20))
    lines.show(replace(job, step=8, progress=0.35, phase=JobPhase.REGROUPING, reason="w1 is lost"))
    told = [line.split(maxsplit=1)[1].rstrip() for line in out.export_text().splitlines()]
    assert told[0] == "running     started"
    assert [line.split(",")[0] for line in told[1:4]] == [f"running     step {step}/20" for step in (2, 4, 6)]
    assert told[4:] == ["regrouping  w1 is lost"]
