"""Where the threads of a process are, taken from outside by py-spy: also of one that hangs, or was stopped.

Owns: the call, its time limit, and the words for why there are none. Functions, files and lines are told, and the
names of threads: never the values of variables.
Refuses to know: why somebody asks. Does not guarantee: stacks; a system may forbid to look into a process (ptrace).
"""

import asyncio
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

PATIENCE = 3.0  # seconds; it takes a hundredth of one where the machine is not busy
TRIES = 3  # what a thread changes while it is read may not be read, some once in 200 times


async def stacks_of(pid: int, most: int) -> str:
    """At most `most` characters: the stacks, or in one line why there are none."""
    program = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if program is None:
        return "no stacks: py-spy is not installed"[:most]
    try:
        async with asyncio.timeout(PATIENCE):
            return (await _dump(program, pid))[:most]
    except TimeoutError:
        return f"no stacks: py-spy did not end in {PATIENCE:g} s"[:most]


async def _dump(program: str, pid: int) -> str:
    # It reads the memory and stops nothing: what was stopped already could not be stopped again.
    command = (program, "dump", "--nonblocking", "--pid", str(pid))
    for _ in range(TRIES):
        status, out, error = await _run(command)
        if status == 0:
            # What comes first names the command and Python's version.
            _, thread, rest = out.decode(errors="replace").partition("\nThread ")
            return (thread + rest).strip() or "no stacks: py-spy found no thread"
    said = error.decode(errors="replace").strip().splitlines()
    why = said[0].removeprefix("Error: ") if said else f"exit status {status}"
    return f"no stacks: {why} (may the agent trace its trainer on this system?)"


async def _run(command: Sequence[str]) -> tuple[int | None, bytes, bytes]:
    """Its exit status, and all that it said; killed where it is not waited for any more."""
    quiet, piped = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
    asked = await asyncio.create_subprocess_exec(*command, stdin=quiet, stdout=piped, stderr=piped)
    try:
        out, error = await asked.communicate()
    except asyncio.CancelledError:
        asked.kill()
        await asked.wait()
        raise
    return asked.returncode, out, error
