"""A coordinator that comes to lead a cluster which had many jobs, beside one that stands by."""

import asyncio
from pathlib import Path

from regroup.coordinator.app import serve
from regroup.coordinator.leadership import AnotherLeads, lead
from regroup.coordinator.persistence import Saved
from regroup.coordinator.settings import Settings
from regroup.coordinator.store import RedisStore
from regroup.wire.places import Places

LEASE = 5.0  # seconds


class Many(RedisStore):
    """Of so many jobs that they are still being read when the test is over."""

    async def load(self) -> Saved:
        return await asyncio.Future()


async def test_who_takes_long_to_read_all_jobs_keeps_the_lead_meanwhile(
    redis_url: str, key_prefix: str, tmp_path: Path
) -> None:
    """Else the one that stands by takes it, and takes as long; and so on."""
    settings = Settings(data_dir=tmp_path, port=0, link_port=0, leader_lease=LEASE, redis_url=redis_url)
    places = Places(tmp_path)
    places.make()
    leading = asyncio.create_task(serve(settings, places, Many(redis_url, key_prefix), None))
    other = RedisStore(redis_url, key_prefix)
    async with asyncio.timeout(20):
        while await other.lease() is None:
            pass  # the store is asked again at once
    standing = asyncio.create_task(lead(other, "standby", LEASE, asyncio.sleep))
    await asyncio.wait([leading, standing], return_when=asyncio.FIRST_COMPLETED)
    assert not leading.done()
    assert isinstance(standing.exception(), AnotherLeads)
    leading.cancel()
    await asyncio.wait([leading])
    await other.close()
