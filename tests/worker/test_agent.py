"""A real agent process, and a hub that plays its coordinator: found wherever it is, and never made to wait by disks."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from regroup.core.jobs import JobSpec
from regroup.core.messages import (
    AgentRegistered,
    Halt,
    Heartbeat,
    Kill,
    ListRecords,
    Prepare,
    ReadRecords,
    RecordsFailed,
    RecordsListed,
    Report,
    TrainerExited,
)
from regroup.wire.keys import server_keys, worker_keys
from regroup.wire.link import Hub
from regroup.wire.places import Places

pytestmark = pytest.mark.cluster

LIMIT = 30.0  # seconds; what is awaited here takes a fraction of one
Said = TypeVar("Said", bound=Report)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """The data directory of an agent that runs. It is told of a link where nobody listens any more."""
    places = Places(tmp_path_factory.mktemp("agent"))
    server_keys(places.keys)
    worker_keys(places.keys)
    hub = make_hub(places)
    places.link.write_text(hub.address)
    hub.close()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("REGROUP_")}
    environ = {**clean, "REGROUP_DATA_DIR": str(places.root), "REGROUP_WORKER": "w0"}
    with subprocess.Popen([sys.executable, "-m", "regroup.worker.agent"], env=environ) as process:
        try:
            yield places
            process.terminate()
            assert process.wait(LIMIT) == 0
        finally:
            process.kill()


def make_hub(places: Places) -> Hub:
    server = server_keys(places.keys)
    return Hub(public=server.public, secret=server.secret, allowed=[worker_keys(places.keys).public])


class Coordinator:
    """The hub, and what the agent said to it."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.said: asyncio.Queue[Report] = asyncio.Queue()

    async def hears(self, kind: type[Said]) -> Said:
        async with asyncio.timeout(LIMIT):
            while not isinstance(report := await self.said.get(), kind):
                pass
            return report


@asynccontextmanager
async def coordinator(places: Places) -> AsyncIterator[Coordinator]:
    """On a port of its own, which stands in the link file."""
    one = Coordinator(make_hub(places))
    running = asyncio.create_task(one.hub.run(lambda _, report: one.said.put_nowait(report), lambda _: None))
    places.link.write_text(one.hub.address)
    try:
        yield one
    finally:
        running.cancel()
        await asyncio.wait([running])
        one.hub.close()


async def test_an_agent_finds_a_coordinator_that_comes_back_on_another_port(places: Places) -> None:
    addresses = set()
    for _ in range(2):
        async with coordinator(places) as one:
            addresses.add(one.hub.address)
            await one.hears(AgentRegistered)
    assert len(addresses) == 2


async def test_an_agent_obeys_while_its_trainer_is_stopped_and_reads_nothing(places: Places) -> None:
    async with coordinator(places) as one:
        await one.hears(AgentRegistered)
        assert one.hub.send("w0", Prepare("k", JobSpec(task="digits", steps=1)))
        while (trainer := (await one.hears(Heartbeat)).trainer) is None or not trainer.pid:
            pass
        os.kill(trainer.pid, signal.SIGSTOP)
        for sent in range(20_000):  # far more than a pipe holds
            if not one.hub.send("w0", Halt("k", sent + 1)):
                await asyncio.sleep(0.01)  # the link is full: some are lost, and the next waits a little
        assert one.hub.send("w0", Kill("k", trainer.incarnation, "it hangs"))
        ended = await one.hears(TrainerExited)
        assert (ended.incarnation, ended.asked) == (trainer.incarnation, True)


async def test_an_agent_obeys_while_a_file_of_records_is_read(places: Places) -> None:
    slow: Path = places.root / "records" / "j" / "w0-a.jsonl"
    slow.parent.mkdir(parents=True)
    os.mkfifo(slow)  # whoever opens it waits for a writer
    async with coordinator(places) as one:
        await one.hears(AgentRegistered)
        assert one.hub.send("w0", ReadRecords("r1", "j", slow.name, 0))
        assert one.hub.send("w0", ListRecords("r2", "j"))
        assert (await one.hears(RecordsListed)).files == (slow.name,)
        writer = await asyncio.to_thread(os.open, slow, os.O_WRONLY)
        assert (await one.hears(RecordsFailed)).request == "r1"  # it is no file
        os.close(writer)
