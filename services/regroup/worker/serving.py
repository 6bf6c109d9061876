"""An agent as a process: it takes its name on this machine, waits for a former trainer to be gone, and serves.

Owns: what an agent is put together from (settings, places, keys, line, nursery), signals, and how the process ends.
Refuses to know: what the agent does (`agent`).
Does not guarantee: that a coordinator is there; the agent looks for one until it is told to end.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from itertools import cycle
from pathlib import Path

from regroup.wire.environment import BadSettings, read
from regroup.wire.folders import expect_writable, told
from regroup.wire.join import joining
from regroup.wire.keys import KeysUnreadable
from regroup.wire.link import Line
from regroup.wire.places import Places
from regroup.worker.agent import Agent, TurnedAway
from regroup.worker.apart import apart
from regroup.worker.health import Health, file_of
from regroup.worker.locks import outlive, trainer_lock
from regroup.worker.name import WorkerTaken, asked_as, take
from regroup.worker.nursery import BirthFailed, Nursery
from regroup.worker.place import is_url
from regroup.worker.reach import reachable_at
from regroup.worker.settings import AgentSettings

TRAINER = "regroup.worker.process:main"
DISK = 10.0  # seconds in which a folder says whether it can be written

log = logging.getLogger("regroup.agent")


async def serve(settings: AgentSettings) -> None:
    """Run an agent until SIGTERM or SIGINT. Raises WorkerTaken, BirthFailed, KeysUnreadable, OSError, ValueError."""
    places = Places(settings.data_dir)
    places.make()
    await expect_folders(settings)
    run = settings.data_dir / "run"
    run.mkdir(exist_ok=True)
    wanted = settings.worker
    settings = settings.model_copy(update={"worker": take(run, wanted)})
    keys = joining(places.keys, settings.join.get_secret_value() if settings.join is not None else None)
    where: Callable[[], str | None] = places.link_address
    if settings.coordinator is not None:
        where = partial(next, cycle(settings.coordinator.split(",")))
    address = where()
    if address is None:
        raise FileNotFoundError(f"{places.link} names no link: start the coordinator first, or set REGROUP_COORDINATOR")
    host = await reachable_at(settings.data_host, address, where)
    nursery = Nursery(settings.worker, host, settings.data_dir, settings.threads, TRAINER, settings.checkpoints)
    await outlive(trainer_lock(settings.data_dir, settings.worker))

    def line(on_connected: Callable[[], None]) -> Line:
        return Line(
            address,
            worker=settings.worker,
            public=keys.worker.public,
            secret=keys.worker.secret,
            server=keys.server,
            on_connected=on_connected,
            where=where,
        )

    agent = Agent(settings, line, nursery, Health(file_of(settings.data_dir, asked_as(wanted))))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, agent.leave)
    await agent.run()


async def expect_folders(settings: AgentSettings) -> None:
    """Raises Unwritable. A disk that does not answer is not waited for; who writes there will say so."""
    kept = settings.checkpoints
    wanted = {settings.data_dir / name: "REGROUP_DATA_DIR" for name in ("run", "records", "logs")}
    if kept is None or not is_url(kept):
        wanted[settings.data_dir / "checkpoints" if kept is None else Path(kept)] = "REGROUP_CHECKPOINTS"
    for folder, variable in wanted.items():
        advice = f"give it to that user (chown), mount it to be written to, or set {variable} to another folder"
        try:
            await asyncio.wait_for(apart(partial(expect_writable, folder, "the folder", advice)), DISK)
        except TimeoutError:
            log.warning("%s does not answer in %g s: going on without knowing whether it can be written", folder, DISK)


def main() -> None:
    """`regroup-agent`: one worker on this machine."""
    code = 0
    try:
        settings = read(AgentSettings)
        form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
        logging.basicConfig(level=settings.log_level.upper(), format=form)
        asyncio.run(serve(settings))
    except (BadSettings, WorkerTaken, TurnedAway, BirthFailed, KeysUnreadable, OSError, ValueError) as error:
        words = told(error) if isinstance(error, OSError) else error
        print(f"regroup-agent: {words}", file=sys.stderr)
        code = 1
    except Exception:  # nobody foresaw it: whoever starts agents again begins with a whole one
        log.exception("ends by an error of its own")
        code = 1
    # Else multiprocessing would wait, without limit, for a trainer that was killed and is stuck in the kernel.
    logging.shutdown()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
