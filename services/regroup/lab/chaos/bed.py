"""A cluster of three workers that many cells share, and what a job that nothing happens to ends with.

Owns: its settings, asking it while its coordinator comes and goes, and the undisturbed weights.
Refuses to know: faults. What a cell leaves behind must end with its job.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from regroup.client.errors import Unavailable, Unreachable
from regroup.client.sdk import Client
from regroup.core.spec import JobSpec
from regroup.lab.chaos.network import Network, network
from regroup.lab.local import LocalCluster
from regroup.wire.rest import EventView, JobView
from regroup.worker.checkpoint import read
from regroup.worker.storage import Storage

WORKERS = 3
LIMIT = 60.0  # seconds until what is awaited counts as never happening
LOOK = 0.01  # seconds between two looks
STEPS = 92
LAST = STEPS - 40  # from here on the steps are slow until the fault is over: for a minute at most
BESIDE = 4  # steps between checkpoints, where an older one is wanted
PACE = 0.004  # seconds that each pass takes longer: four a step
# Short, so that a cell takes seconds; a user's are longer (docs/cli.md).
SETTINGS = {
    "error_limit": "1000000",
    "leader_lease": "1",
    "halt_limit": "2",
    "form_limit": "6",
    "detached_limit": "8",
    "detached_margin": "1",
    "prepare_limit": "10",
    "save_retry": "0.5",
    "read_retry": "1",
}
STEP_TIMEOUT = 3.0

Found = TypeVar("Found")


class ChaosFailed(Exception):
    """The cluster did not come to where the fault is to be done, or not back to rest; the message says what."""


class Bed:
    def __init__(self, cluster: LocalCluster, network: Network | None = None) -> None:
        self.cluster, self.network = cluster, network
        self._client: Client | None = None
        self._calm: dict[str, Tensor] | None = None
        self._warm: dict[str, int] = {}  # the agents' processes that have prepared a trainer

    def ask(self, question: Callable[[Client], Found]) -> Found:
        """Asked again while nobody answers, also where a new coordinator is. Raises Unreachable, Unavailable."""
        deadline = time.monotonic() + LIMIT
        while True:
            try:
                if self._client is None:
                    self._client = self.cluster.client()
                return question(self._client)
            except (Unreachable, Unavailable, OSError, ValueError):
                self.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(5 * LOOK)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def until(self, met: Callable[[], Found | None], what: str, limit: float = LIMIT) -> Found:
        """The first answer that is neither None nor False. Raises ChaosFailed when it takes too long."""
        deadline = time.monotonic() + limit
        while True:
            found = met()
            if found is not None and found is not False:
                return found
            if time.monotonic() > deadline:
                raise ChaosFailed(f"{what}: this did not happen in {limit:g} s")
            time.sleep(LOOK)

    def job(self, id: str) -> JobView:
        return self.ask(lambda client: client.job(id))

    def events(self, id: str) -> list[EventView]:
        """Of this job and of the workers, which belong to no job."""
        return self.ask(lambda client: [each for each in client.events() if each.job in (None, id)])

    def rest(self) -> None:
        """Wait until every worker is free and warm; whatever is held against one is forgiven."""
        self._free()
        agents = {name: agent.process.pid for name, agent in self.cluster.agents.items()}
        if agents != self._warm:
            self._warm_up()
            self._warm = agents

    def _warm_up(self) -> None:
        """Who was just started imports torch before its first trainer is there, and all others would wait for it."""
        folder = self.cluster.data_dir / "warm-up"
        folder.mkdir(exist_ok=True)
        (folder / "start").touch()
        asked = replace(spec(folder), min_workers=WORKERS)
        id = self.ask(lambda client: client.submit(asked)).id
        self.until(lambda: self.job(id).step > 0, "all workers train")
        self.stop(id)
        self._free()

    def _free(self) -> None:
        def free(client: Client) -> bool:
            return client.cluster().idle == len(self.cluster.agents)

        for worker in self.ask(lambda client: client.workers()):
            if worker.errors or worker.quarantined:
                self.ask(lambda client, name=worker.name: client.clear(name))  # type: ignore[misc]
        self.until(lambda: self.ask(free), "all workers are free")

    def submit(self, folder: Path, checkpoint_every: int | None = None) -> str:
        return self.ask(lambda client: client.submit(replace(spec(folder), checkpoint_every=checkpoint_every))).id

    def stop(self, id: str) -> None:
        """End the job if it has not ended. Raises ChaosFailed."""
        if not self.job(id).ended:
            self.ask(lambda client: client.stop(id))
            self.until(lambda: self.job(id).ended, "the job is stopped")

    @property
    def calm(self) -> Mapping[str, Tensor]:
        """The weights of a job that nothing happened to, on one worker."""
        if self._calm is None:
            raise ChaosFailed("no undisturbed job was run yet")
        return self._calm

    def settle(self, folder: Path) -> None:
        """Run a job that nothing happens to, and keep its weights."""
        for name in ("start", "finish"):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()
        self.rest()
        id = self.ask(lambda client: client.submit(spec(folder, workers=1))).id
        job = self.until(lambda: job if (job := self.job(id)).ended else None, "the undisturbed job ends")
        if job.phase != "completed":
            raise ChaosFailed(f"the undisturbed job is {job.phase}: {job.reason}")
        self._calm = weights(job)


@contextmanager
def bed(folder: Path, *, cables: bool = False) -> Iterator[Bed]:
    """`cables`: each worker is behind one of its own, that can be pulled."""
    names, settings = [f"w{number}" for number in range(WORKERS)], dict(SETTINGS)
    with ExitStack() as stack:
        laid = stack.enter_context(network(names)) if cables else None
        given: dict[str, Any] = {}
        if laid is not None:
            settings["link_host"] = laid.address
            given["launch"] = laid.launch
        cluster = LocalCluster(folder, WORKERS, isolated=True, threads=1, settings=settings, **given)
        made = Bed(stack.enter_context(cluster), laid)
        stack.callback(made.close)
        made.settle(folder / "calm")
        yield made


def spec(folder: Path, workers: int = WORKERS) -> JobSpec:
    options: dict[str, Any] = {"folder": str(folder), "pace": PACE, "last": LAST}
    return JobSpec(
        task="regroup.lab.chaos.held:Held",
        name=folder.name,
        options=options,
        steps=STEPS,
        global_batch=24,
        shards=12,
        seed=7,
        max_workers=workers,
        step_timeout=STEP_TIMEOUT,
        max_restarts=1,
    )


def weights(job: JobView) -> dict[str, Tensor]:
    """Of the job's final state. Raises what reading it raises."""
    if job.checkpoint is None:
        return {}
    folder = Path(job.checkpoint.path).parent
    tree, _ = read(Storage(str(folder), folder), job.id, job.checkpoint)
    return dict(tree["model"])


def difference(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float | None:
    """The largest, over all weights; None if they are not of one shape, or there are none."""
    if not one or one.keys() != other.keys():
        return None
    with suppress(RuntimeError):
        return max(
            float((one[name] - other[name]).abs().max()) if torch.is_floating_point(one[name]) else 0.0 for name in one
        )
    return None
