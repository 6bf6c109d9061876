"""`regroup disturb`, on a cluster that a user has already."""

import json
import os
import signal
import socket
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from regroup.lab.disturb import deeds
from regroup.lab.disturb.deeds import DEEDS

pytestmark = pytest.mark.cluster


def test_a_job_is_struck_in_each_way_and_goes_on_and_nothing_is_held_against_its_workers(
    served: Any, tmp_path: Path
) -> None:
    job = served.after(served.submit("faulty:Slow", steps=100_000, max_workers=2, step_timeout=5.0), 3, workers=2)
    faults = [each for name in DEEDS for each in ("--fault", name)]
    file = tmp_path / "told.json"
    words = ["disturb", job.id[:6], *faults, "--minutes", "0.6", "--every", "1", "--seed", "3", "--json", str(file)]
    with served.cli.started(*words) as process:
        out, err = process.communicate(timeout=110)
    assert process.returncode == 0, err
    told = json.loads(file.read_text())
    done = Counter(each["deed"] for each in told["faults"])
    assert done.total() >= 5
    assert len(done) >= 3
    assert all(each["went_on"] is not None and each["whole"] is not None for each in told["faults"])
    assert told["complaints"] == []
    assert told["audit"]["ok"]
    assert "0 samples lost, 0 doubled; it goes on" in out
    assert all(DEEDS[name].what in out for name in done)
    assert err.count("next step") == done.total()
    assert [(each.errors, each.drained) for each in served.client.workers()] == [(0, False), (0, False)]
    assert served.after(job, told["steps"]).restarts == 0
    served.stop_all()


def test_where_it_is_interrupted_nobody_is_left_drained_or_stopped(served: Any, until: Any) -> None:
    job = served.after(served.submit("faulty:Slow", steps=100_000, max_workers=2), 3, workers=2)
    with served.cli.started("disturb", job.id, "--fault", "trainer-stopped", "--every", "1000") as process:
        until(lambda: "T" in {state_of(each.trainer) for each in served.client.workers()}, "a trainer is stopped")
        process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=40)[1]
    assert process.returncode == 130
    assert "interrupted: the figures are of what was found until then" in err
    until(lambda: "T" not in {state_of(each.trainer) for each in served.client.workers()}, "nobody is left stopped")
    assert not served.client.job(job.id).ended
    served.stop_all()


def test_what_cannot_be_disturbed_is_refused_in_one_line(served: Any) -> None:
    alone = served.after(served.submit("faulty:Slow", steps=100_000), 1)
    refused = served.cli("disturb", alone.id)
    assert refused.returncode == 2
    assert refused.stderr == (
        f"regroup: {alone.id} cannot be disturbed: it trains on one worker, with which its state would be lost: let it "
        "have two (max_workers)\n"
    )
    unknown = served.cli("disturb", alone.id, "--fault", "flood")
    assert unknown.returncode == 2
    assert unknown.stderr == f"regroup: there is no fault flood; there are {', '.join(DEEDS)}\n"
    assert served.cli("disturb", "j-none").returncode == 3
    served.client.stop(alone.id)
    ended = served.cli("disturb", served.ended(alone).id)
    assert ended.returncode == 2
    assert f"{alone.id} cannot be disturbed: it is stopped" in ended.stderr
    served.stop_all()


def test_only_what_descends_from_the_named_agent_is_touched(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    job = served.after(served.submit("faulty:Slow", steps=100_000, max_workers=2), 1, workers=2)
    found = deeds.victims(served.client, job)
    assert sorted(each.worker for each in found) == ["w0", "w1"]
    assert all(deeds.descends(each.trainer, each.agent) for each in found)
    assert not deeds.descends(found[0].trainer, found[1].agent)
    assert not deeds.descends(os.getpid(), found[0].agent)
    assert not deeds.descends(2**22, 1)
    monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
    assert deeds.victims(served.client, job) == []
    served.stop_all()


def state_of(pid: int | None) -> str:
    """As the kernel tells it; T: stopped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"
