"""A coordinator that comes to lead a cluster which had many jobs, beside one that stands by."""

import asyncio
from dataclasses import replace
from pathlib import Path

from regroup.coordinator.app import serve
from regroup.coordinator.leadership import AnotherLeads, lead
from regroup.coordinator.settings import Settings
from regroup.coordinator.store import RedisStore
from regroup.core.jobs import Job, JobPhase, Link
from regroup.core.spec import JobSpec
from regroup.wire.places import Places

LEASE = 1.0  # seconds; a busy machine stops a process for a good part of it
JOBS = 12_000  # that take longer than a lease to read


async def test_who_takes_long_to_read_all_jobs_keeps_the_lead_meanwhile(
    redis_url: str, key_prefix: str, tmp_path: Path
) -> None:
    """Else the one that stands by takes it, and takes as long; and so on."""
    former = RedisStore(redis_url, key_prefix)
    fence = await former.acquire("former", LEASE)
    links = tuple(Link(n + 1, n, 10 * n) for n in range(50))
    job = Job(id="j", spec=JobSpec(task="digits", steps=10), submitted=0.0, phase=JobPhase.COMPLETED, history=links)
    for first in range(0, JOBS, 1000):
        await former.save(fence, [replace(job, id=f"j{n}") for n in range(first, first + 1000)])
    await former.release("former", fence)
    settings = Settings(data_dir=tmp_path, port=0, link_port=0, leader_lease=LEASE, redis_url=redis_url)
    places = Places(tmp_path)
    places.make()
    leading = asyncio.create_task(serve(settings, places, RedisStore(redis_url, key_prefix), None))
    async with asyncio.timeout(20):
        while await former.lease() is None:
            pass  # the store is asked again at once: the moment counts
    await former.close()

    async def stand_by() -> None:
        store = RedisStore(redis_url, key_prefix)
        try:
            await lead(store, "standby", LEASE, asyncio.sleep)
        finally:
            await store.close()

    standing = asyncio.create_task(asyncio.to_thread(lambda: asyncio.run(stand_by())))  # as another process would
    await asyncio.wait([leading, standing], timeout=20, return_when=asyncio.FIRST_COMPLETED)
    ended = leading.exception() if leading.done() else None
    leading.cancel()
    await asyncio.wait([leading, standing])
    assert ended is None
    assert isinstance(standing.exception(), AnotherLeads)
