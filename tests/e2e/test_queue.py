"""Jobs and workers: first in, first out, growth to what a job may have, and a worker that fails too often."""

from typing import Any

import pytest

pytestmark = pytest.mark.cluster


@pytest.fixture(autouse=True)
def _nothing_left(served: Any) -> Any:
    yield
    served.stop_all()


def workers_of(job: Any) -> set[str]:
    return {member.worker for member in job.members}


def test_the_third_job_waits_for_its_turn_and_starts_on_the_worker_that_is_freed(served: Any, until: Any) -> None:
    first = served.submit("faulty:Slow", steps=10_000)
    second = served.submit("faulty:Slow", steps=10_000)
    third = served.submit("faulty:Slow", steps=3)
    fourth = served.submit("faulty:Slow", steps=3)
    first, second = served.after(first, 1), served.after(second, 1)
    assert workers_of(first) | workers_of(second) == {"w0", "w1"}

    waiting = served.client.job(third.id)
    why = f"waiting for its turn behind {first.id}, {second.id}"
    assert (waiting.phase, waiting.reason, waiting.workers) == ("queued", why, ())

    served.client.stop(second.id)
    third, fourth = served.ended(third), served.ended(fourth)
    assert (third.phase, fourth.phase) == ("completed", "completed")
    assert third.since < fourth.since, "first in, first out"
    lent = [(e.job, e.worker) for e in served.client.events() if e.kind == "lent" and e.job in (third.id, fourth.id)]
    assert lent == [(third.id, *workers_of(second)), (fourth.id, *workers_of(second))]
    assert served.client.job(first.id).phase == "running"


def test_a_running_job_grows_to_its_max_workers_when_a_worker_is_freed(served: Any, until: Any) -> None:
    brief = served.submit("faulty:Slow", steps=10_000)
    grows = served.submit("faulty:Slow", steps=10_000, max_workers=2)
    alone = served.after(grows, 3)
    assert len(alone.members) == 1
    served.client.stop(brief.id)
    until(lambda: len(served.client.job(grows.id).members) == 2, "the job takes the second worker in")
    both = served.after(grows, alone.step + 3)
    assert workers_of(both) == {"w0", "w1"}
    assert both.generation > alone.generation
    assert {shard for member in both.members for shard in member.shards} == set(range(both.shards))


def test_a_job_that_needs_more_workers_than_there_are_holds_nobody_up(served: Any) -> None:
    large = served.submit("faulty:Sound", min_workers=3, max_workers=3)
    served.all_serve()
    assert served.client.job(large.id).phase == "queued"


def test_a_worker_whose_trainers_keep_dying_is_quarantined_until_it_is_cleared(served: Any) -> None:
    job = served.ended(served.submit("faulty:DiesOn", options={"worker": "w0"}))
    assert job.phase == "completed", "the other worker does it"

    quarantined = served.client.worker("w0")
    assert (quarantined.quarantined, quarantined.errors, quarantined.job) == (True, 6, None)
    assert quarantined.reason == "quarantined after 6 errors, the last: killed by SIGKILL"
    table = served.cli("workers").stdout.splitlines()
    assert "quarantined" in next(line for line in table if line.startswith("w0"))
    alone = served.ended(served.submit("faulty:Sound", max_workers=2))
    assert {(e.worker) for e in served.client.events(alone.id) if e.kind == "lent"} == {"w1"}

    cleared = served.cli("clear", "w0")
    assert (cleared.returncode, cleared.stdout) == (0, "w0 is cleared: cleared by its operator\n")
    assert served.client.worker("w0").errors == 0
    served.all_serve()
