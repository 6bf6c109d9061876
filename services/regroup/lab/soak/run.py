"""The two halves of a soak. Read it top to bottom.

Owns: the cluster, its two jobs, and what is counted. Refuses to know: what is flat, and how results are shown.
The task is the one of the chaos runs: it takes its time by sleeping, so that the cluster's own work is what there is.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from regroup.core.jobs import JobPhase
from regroup.core.spec import JobSpec
from regroup.lab.audit import Audit, audit_job
from regroup.lab.chaos.bed import SETTINGS, STEP_TIMEOUT, WORKERS, Bed, ChaosFailed
from regroup.lab.local import LocalCluster
from regroup.lab.soak.deeds import REGROUPS, STORM, Target, draw_deed
from regroup.lab.soak.sampling import sample, segments
from regroup.wire.rest import JobView

STEPS = 10_000_000  # of a job: more than any soak does
PACE = 0.02  # seconds that each pass takes: four a step
PERIOD = (2.5, 7.5)  # seconds between two faults of the storm
CHECKPOINT_EVERY = 20  # steps: so that all that are kept are there long before the warm-up ends
AGAIN = 0.2  # seconds until another fault is drawn for one that hit nobody
LIMIT = 180.0  # seconds until all must train together again
SURVIVOR = f"w{WORKERS - 1}"  # whose processes nobody touches in the first half


@dataclass(slots=True)
class Half:
    """What one job lived through."""

    seconds: float = 0.0
    steps: int = 0
    regroups: int = 0
    kills: int = 0  # regroups that a SIGKILL began; one counts once, however many generations come of it
    restarts: int = 0
    deeds: Counter[str] = field(default_factory=Counter)
    audit: Audit | None = None  # None: it did not come to that


@dataclass(slots=True)
class Outcome:
    """Filled as it goes, so that an interrupted soak tells what it has."""

    regroups: Half = field(default_factory=Half)
    storm: Half = field(default_factory=Half)
    samples: list[tuple[int, dict[str, float]]] = field(default_factory=list)  # after so many regroups
    strangers: frozenset[str] = field(default_factory=segments)  # shared memory that was there before the cluster


@contextmanager
def soaking(data_dir: Path) -> Iterator[Bed]:
    cluster = LocalCluster(data_dir, WORKERS, isolated=True, threads=1, settings=SETTINGS)
    with cluster:
        bed = Bed(cluster)
        try:
            yield bed
        finally:
            bed.close()


def regroup(
    bed: Bed, outcome: Outcome, wanted: int, draw: random.Random, on_regroups: Callable[[int], None] = lambda n: None
) -> None:
    """Have a job regroup so often, one deed after the other, and measure the cluster whenever all train again.

    Raises ChaosFailed, and what asking the cluster raises.
    """
    half, id = outcome.regroups, _submit(bed, "regroups")
    with _audited(bed, id, half):
        job = _together(bed, id)
        target = Target(bed, id, [name for name in bed.cluster.agents if name != SURVIVOR], draw)
        while half.regroups < wanted:
            name = draw_deed(REGROUPS, draw)
            before, deed = job.generation, REGROUPS[name]
            if not deed.do(target):
                raise ChaosFailed(f"{name}: no trainer was found")
            half.deeds[name] += 1
            job = _together(bed, id, above=before if deed.regroups else before - 1)
            half.kills += deed.kills
            half.regroups = len(job.history) - 1
            outcome.samples.append((half.regroups, sample(bed.cluster, SURVIVOR, outcome.strangers)))
            on_regroups(half.regroups)


def weather(
    bed: Bed, half: Half, seconds: float, draw: random.Random, on_second: Callable[[float], None] = lambda s: None
) -> None:
    """Do faults to a job for so long, without waiting for what comes of them. Raises as `regroup` does.

    A fault that takes longer than its period, as resting does, is followed by the next one at once. One that finds
    nobody to hit is drawn again.
    """
    id = _submit(bed, "storm")
    with _audited(bed, id, half):
        _together(bed, id)
        target, began = Target(bed, id, list(bed.cluster.agents), draw), time.monotonic()
        while (now := time.monotonic()) < began + seconds:
            on_second(now - began)
            if (job := bed.job(id)).ended:
                raise ChaosFailed(f"the job is {job.phase}: {job.reason}")
            name = draw_deed(STORM, draw)
            if not STORM[name].do(target):
                time.sleep(AGAIN)
                continue
            half.deeds[name] += 1
            time.sleep(max(0.0, now + draw.uniform(*PERIOD) - time.monotonic()))
        _together(bed, id)


def _submit(bed: Bed, name: str) -> str:
    folder = bed.cluster.data_dir / f"{name}.gates"
    folder.mkdir()
    for gate in ("start", "finish"):  # the task never waits
        (folder / gate).touch()
    spec = JobSpec(
        task="regroup.lab.chaos.held:Held",
        name=name,
        options={"folder": str(folder), "pace": PACE, "last": STEPS},
        steps=STEPS,
        global_batch=24,
        shards=12,
        max_workers=WORKERS,
        step_timeout=STEP_TIMEOUT,
        checkpoint_every=CHECKPOINT_EVERY,
        keep_last=2,
        max_restarts=1_000_000,
    )
    return bed.ask(lambda client: client.submit(spec)).id


def _together(bed: Bed, id: str, above: int = 0) -> JobView:
    """All workers train together, in a generation above that one; a pause that a fault outlasted is ended."""
    resumed = 0.0

    def look() -> JobView | None:
        nonlocal resumed
        job = bed.job(id)
        if job.ended:
            raise ChaosFailed(f"the job is {job.phase}: {job.reason}")
        if job.phase is JobPhase.PAUSED and time.monotonic() > resumed + 5.0:
            resumed = time.monotonic()
            bed.ask(lambda client: client.resume(id))
        formed = job.history[-1].generation if job.history else 0
        trains = job.phase is JobPhase.RUNNING and len(job.members) == WORKERS and formed > above
        return job if trains else None

    return bed.until(look, f"all {WORKERS} workers train together again", limit=LIMIT)


@contextmanager
def _audited(bed: Bed, id: str, half: Half) -> Iterator[None]:
    """Whatever ends what is done to the job, it is stopped, and its records are counted."""
    began = time.monotonic()
    try:
        yield
    finally:
        half.seconds = time.monotonic() - began
        bed.stop(id)
        job = bed.job(id)
        half.steps, half.restarts, half.regroups = job.step, job.restarts, max(0, len(job.history) - 1)
        records = bed.cluster.data_dir / "records" / id
        half.audit = bed.ask(lambda client: audit_job(client, id, records))
