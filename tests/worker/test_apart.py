"""Work apart from the event loop: what it gives, and that nobody waits for one that hangs."""

import asyncio
import subprocess
import sys
import threading

import pytest

from regroup.worker.apart import apart


async def test_it_gives_what_the_work_gives_or_raises() -> None:
    assert await apart(lambda: threading.current_thread() is threading.main_thread()) is False
    with pytest.raises(ZeroDivisionError):
        await apart(lambda: 1 // 0)


async def test_work_that_hangs_keeps_no_other_from_its_turn() -> None:
    """However much of it there is: a pool would be full."""
    over = threading.Event()
    hung = [asyncio.create_task(apart(over.wait)) for _ in range(64)]
    async with asyncio.timeout(30):
        assert await apart(lambda: "done") == "done"
    over.set()
    assert all(await asyncio.gather(*hung))


def test_a_process_ends_although_work_of_it_hangs() -> None:
    code = """if True:
        import asyncio, time
        from regroup.worker.apart import apart
        async def main():
            asyncio.create_task(apart(lambda: time.sleep(600)))
            await asyncio.sleep(0)
        asyncio.run(main())
    """
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
