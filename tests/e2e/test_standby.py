"""Two coordinators while a job trains: the one that leads is killed, the other takes over, and neither those who train
nor those who ask lose anything by it."""

import json
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from regroup.lab.bench.following import Following

pytestmark = pytest.mark.cluster

LEASE = 3.0  # seconds


def test_a_standby_takes_over_in_mid_training_and_nothing_is_lost(serve: Any, until: Any, tmp_path: Path) -> None:
    with serve(tmp_path, 2, coordinators=2, leader_lease=str(LEASE)) as served:
        cluster, cli = served.cluster, served.cli
        leader, standby = cluster.coordinators.values()
        urls = f"{served.client.url},{served.client.cluster().standbys[0].url}"
        cli.environ |= {"REGROUP_URL": urls}
        job = served.after(served.submit("faulty:Slow", steps=300, min_workers=2, max_workers=2), 3)
        following = Following(tmp_path / "records" / job.id)
        following.forget()

        ended, codes = threading.Event(), []

        def ask() -> None:
            while not ended.is_set():
                codes.append(cli("job", job.id).returncode)

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            leader.restart = False  # by this supervisor: it is to come back later
            leader.kill()
            killed = time.monotonic()
            log = tmp_path / "logs" / "coordinator-1.log"
            until(lambda: "leading with" in log.read_text(), "the standby takes over")
            took = time.monotonic() - killed
            assert took < LEASE + 3
            until(lambda: served.client.cluster().healthy == 2, "the workers find it")
            following.look()
            commits = sorted(one.at / 1e9 for one in following.seen if one.at / 1e9 > killed)
            assert commits[0] - killed < 1.0
            assert sum(at < killed + took for at in commits) > 5 * took, "steps went on while nobody led"
            late = [after - before for before, after in pairwise(commits)]
            assert max(late) < LEASE / 2, "nor did they wait for anybody"

            cluster.start_coordinator()
            told = json.loads(cli("cluster", "--json").stdout)
            assert f"pid {standby.process.pid}, " in told["leader"]
            assert [f"pid {cluster.coordinator.process.pid}, " in each["holder"] for each in told["standbys"]] == [True]
            until(lambda: len(codes) > 2, "somebody asks again and again")
        finally:
            ended.set()
            asking.join()
        assert set(codes) == {0}, "the command line worked all the time"

        done = served.ended(job)
        assert (done.phase, done.restarts, done.history) == ("completed", 0, job.history), done.reason
        audited = cli("audit", job.id)
        assert (audited.returncode, "each exactly once" in audited.stdout) == (0, True), audited.stdout
        sheet = cli("cluster").stdout
        assert f"pid {standby.process.pid}, " in sheet.splitlines()[0]
        assert urls.split(",")[0] in next(line for line in sheet.splitlines() if line.startswith("standby"))


def test_a_job_that_is_submitted_while_nobody_leads_is_one_job(serve: Any, tmp_path: Path) -> None:
    with serve(tmp_path, 0, coordinators=2, leader_lease=str(LEASE)) as served:
        served.cluster.coordinators["coordinator"].kill()
        job = served.submit("faulty:Sound")
        assert [each.id for each in served.client.jobs()] == [job.id]
