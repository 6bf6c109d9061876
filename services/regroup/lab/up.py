"""`regroup up`: a cluster on this machine, until Ctrl-C.

Owns: the command and what it tells. Refuses to know: how processes are kept alive (`local`).
"""

import os
import shlex
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from regroup.client.errors import RegroupError
from regroup.client.printable import PlainConsole
from regroup.lab.local import ClusterFailed, LocalCluster, Supervised
from regroup.wire.environment import BadSettings, read
from regroup.wire.places import PORT, Places, default_data_dir
from regroup.worker.settings import AgentSettings


def up(
    workers: Annotated[int, typer.Option("--workers", "-n", min=1, max=64, help="CPU workers to start.")] = 2,
    port: Annotated[
        int, typer.Option(min=0, max=65535, envvar="REGROUP_PORT", help="Of the REST API; 0: any free one.")
    ] = PORT,
    coordinators: Annotated[
        int, typer.Option(min=1, max=8, help="One leads, the others stand by at the ports that follow the first.")
    ] = 1,
    data_dir: Annotated[
        Path | None, typer.Option(help="Where everything is kept. Default: REGROUP_DATA_DIR or ~/.local/share/regroup.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Of torch, in each worker. Default: the cores, divided.")
    ] = None,
) -> None:
    """Start a cluster on this machine, until Ctrl-C.

    It has an embedded store, a coordinator (or several) and workers, which are kept alive. Workers find tasks of your
    own, module:Class, in the folder where this is started and in PYTHONPATH.
    """
    tell = partial(PlainConsole(stderr=True).print, soft_wrap=True)
    try:  # else each agent would end at once, and be started again and again
        read(AgentSettings, worker="w0", threads=1)
    except BadSettings as error:
        tell(f"regroup up: {error}")
        sys.exit(1)
    folder = (data_dir or default_data_dir(os.environ)).expanduser().absolute()
    stopping, started, hurried = threading.Event(), threading.Event(), threading.Event()

    def leave(*_: object) -> None:
        first = not stopping.is_set()
        stopping.set()
        if first and not started.is_set():
            raise KeyboardInterrupt  # out of whatever is waited for; what runs already is stopped
        if not first and started.is_set():
            hurried.set()
            cluster.hurry()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)

    def tell_end(process: Supervised, code: int) -> None:
        if started.is_set():  # before that, its last words are told
            how = (
                f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}: {process.last_words()}"
            )
            tell(f"{time.strftime('%H:%M:%S')}  {process.name} ended ({how}); starting it again")

    cluster = LocalCluster(
        folder,
        workers,
        coordinators=coordinators,
        threads=threads,
        settings={"port": str(port)},
        on_ended=tell_end,
    )
    try:
        with cluster:
            started.set()
            with cluster.client() as client:
                tell(f"REST      {client.url}   (documentation on /docs)")
                if standbys := [standby.url for standby in client.cluster().standbys]:
                    tell(f"standby   {', '.join(standbys)}; `{_regroup()} cluster` says who leads")
            given = cluster.given_token is not None
            tell(f"token     {'that of REGROUP_TOKEN; set it wherever you ask' if given else Places(folder).token}")
            tell(f"workers   {', '.join(cluster.agents)}; logs in {folder / 'logs'}")
            tell(f"try       {_leading_to(folder)}{_regroup()} submit digits --steps 200 --wait")
            tell("Ctrl-C stops everything; jobs under way are saved, and go on at the next start.")
            stopping.wait()
            tell("stopping: jobs under way are saved first; Ctrl-C again stops at once ...")
            cluster.stop_workers(hand_over=True)
            if not hurried.is_set():
                _tell_of_jobs(cluster, tell)
    except KeyboardInterrupt:
        tell("stopped before it was up")
    except (ClusterFailed, OSError, RegroupError) as error:
        tell(f"regroup up: {str(error).removeprefix('regroup-coordinator: ')}")
        sys.exit(1)


def _tell_of_jobs(cluster: LocalCluster, tell: Callable[[str], None]) -> None:
    """From which step each will go on."""
    with suppress(RegroupError), cluster.client() as client:
        for job in [job for job in client.jobs() if not job.ended]:
            begins = job.beginning.step if job.beginning is not None else 0
            saved = job.checkpoint.version.step if job.checkpoint is not None else begins
            tell(f"job {job.id} goes on from step {saved} at the next start")


def _regroup() -> str:
    """This command, as another shell finds it."""
    if shutil.which("regroup"):
        return "regroup"
    here = Path(sys.argv[0]).absolute()
    return shlex.quote(str(here.relative_to(Path.cwd()) if here.is_relative_to(Path.cwd()) else here))


def _leading_to(folder: Path) -> str:
    """What a command in another shell must begin with to find the cluster there."""
    usual = default_data_dir({**os.environ, "REGROUP_DATA_DIR": ""})  # this shell's own is not set in another one
    return "" if folder == usual else f"REGROUP_DATA_DIR={shlex.quote(str(folder))} "
