"""The wait for whoever has a worker's lock."""

import asyncio
import logging
import os
from pathlib import Path

import pytest

from regroup.worker.locks import hold, outlive


async def test_to_wait_for_a_former_trainer_takes_no_descriptors_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lock = tmp_path / "w0.trainer.lock"
    former = hold(lock)
    with pytest.raises(BlockingIOError):
        hold(lock)
    before = len(os.listdir("/proc/self/fd"))
    with caplog.at_level(logging.WARNING):
        waiting = asyncio.create_task(outlive(lock))
        await asyncio.sleep(1.5)  # there is no event in it: that it goes on is what is shown
        assert not waiting.done()
        assert len(os.listdir("/proc/self/fd")) == before
        os.close(former)
        await asyncio.wait_for(waiting, 30)
    assert [record.getMessage() for record in caplog.records] == [
        f"waiting for the end of a former trainer of this worker: a process holds {lock}"
    ]
