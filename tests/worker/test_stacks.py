"""The stacks of another process, as py-spy tells them."""

import asyncio
import sys
from pathlib import Path

import pytest

from regroup.worker.stacks import TRIES, stacks_of


async def test_why_there_are_no_stacks_is_said_in_one_line() -> None:
    told = await stacks_of(2**22 + 1, 200)
    assert told.startswith("no stacks: ")
    assert len(told.splitlines()) == 1


@pytest.mark.parametrize(("fails", "told"), [(1, "Thread 7"), (TRIES, "no stacks: bad address (")])
async def test_what_changes_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: int, told: str
) -> None:
    spy = tmp_path / "py-spy"
    fail = f"[ $(wc -c < {tmp_path}/tries) -gt {fails} ] || {{ echo Error: bad address >&2; exit 1; }}"
    spy.write_text(f"#!/bin/sh\nprintf x >> {tmp_path}/tries\n{fail}\nprintf 'Process 1\\nThread 7\\n'")
    spy.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert (await stacks_of(1, 100)).startswith(told)


SLEEPER = """
import time
def sleeps_for_long(secret):
    print(flush=True)
    time.sleep(60)
sleeps_for_long('hunter' + '2')
"""


async def test_stacks_name_functions_and_lines_and_no_values_and_are_cut() -> None:
    sleeper = await asyncio.create_subprocess_exec(sys.executable, "-c", SLEEPER, stdout=asyncio.subprocess.PIPE)
    assert sleeper.stdout is not None
    await sleeper.stdout.readline()
    # Neither is our child an ancestor of this one: it may do what py-spy may.
    look = [sys.executable, "-c", f"open('/proc/{sleeper.pid}/mem', 'rb')"]
    looks = await asyncio.create_subprocess_exec(*look, stderr=asyncio.subprocess.DEVNULL)
    allowed = await looks.wait() == 0
    told, short = await stacks_of(sleeper.pid, 16_000), await stacks_of(sleeper.pid, 20)
    sleeper.kill()
    await sleeper.communicate()
    assert "hunter2" not in told
    assert "sleeps_for_long" in told if allowed else told.startswith("no stacks: ")
    assert len(short) <= 20
