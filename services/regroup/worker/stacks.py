"""Where the threads of a process are, taken from outside by py-spy: also of one that hangs, or was stopped.

Owns: the call, its time limit, and the words for why there are none. Functions, files and lines are told, and the
names of threads: never the values of variables.
Refuses to know: why somebody asks. Does not guarantee: stacks; a system may forbid to look into a process (ptrace).
"""

import asyncio
import shutil
import sys
from pathlib import Path

PATIENCE = 3.0  # seconds; it takes a tenth of one where the machine is not busy


async def stacks_of(pid: int, most: int) -> str:
    """At most `most` characters: the stacks, or in one line why there are none."""
    program = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if program is None:
        return "no stacks: py-spy is not installed"[:most]
    # It reads the memory and stops nothing: what was stopped already could not be stopped again.
    command = (program, "dump", "--nonblocking", "--pid", str(pid))
    quiet, piped = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
    asked = await asyncio.create_subprocess_exec(*command, stdin=quiet, stdout=piped, stderr=piped)
    try:
        out, error = await asyncio.wait_for(asked.communicate(), PATIENCE)
    except TimeoutError:
        asked.kill()
        await asked.wait()
        return f"no stacks: py-spy did not end in {PATIENCE:g} s"
    if asked.returncode != 0:
        said = error.decode(errors="replace").strip().splitlines()
        why = said[0].removeprefix("Error: ") if said else f"exit status {asked.returncode}"
        return f"no stacks: {why} (may the agent trace its trainer on this system?)"[:most]
    # What comes first names the command and Python's version.
    _, thread, rest = out.decode(errors="replace").partition("\nThread ")
    return (thread + rest).strip()[:most] or "no stacks: py-spy found no thread"
