"""The commands that hand out secrets: on the machine that has them, to its owner, and nowhere else.

Owns: `regroup secrets`, `regroup join-token` and `regroup metrics-token`.
Refuses to know: what is in the files (`wire`), and REST.
"""

import os
from pathlib import Path
from typing import Annotated

import typer

from regroup.client import terminal
from regroup.wire.join import token_of
from regroup.wire.keys import KeysUnreadable
from regroup.wire.places import Places, default_data_dir
from regroup.wire.provision import provision
from regroup.wire.token import BadToken, api_token
from regroup.wire.token import metrics_token as token_for_metrics


def secrets(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where they are kept, or made if they are not there.")
    ],
) -> None:
    """Make the secrets of services that start apart.

    In containers, on Kubernetes: one folder for each service, readable by its owner only. What is there is kept.
    """
    try:
        made = provision(folder.expanduser())
    except (OSError, KeysUnreadable, BadToken) as error:
        terminal.give_up(str(error), terminal.FAILED)
    terminal.complain(f"{folder}: made {len(made)} files" if made else f"{folder}: all there, nothing changed")


DataDir = Annotated[
    Path | None, typer.Option(help="The coordinator's. Default: REGROUP_DATA_DIR or ~/.local/share/regroup.")
]


def join_token(data_dir: DataDir = None) -> None:
    """Tell the word that lets an agent elsewhere in.

    It is that one's REGROUP_JOIN. This runs on the coordinator's machine, as its user. Who has the word is let in: keep
    it as a password.
    """
    places = _places(data_dir)
    try:
        typer.echo(token_of(places.keys))
    except KeysUnreadable as error:
        terminal.give_up(str(error), terminal.FAILED)


def metrics_token(data_dir: DataDir = None) -> None:
    """Tell the word that reads /metrics, and nothing else.

    It follows from the token of the REST API: from REGROUP_TOKEN, else the one in the data directory.
    """
    path = _places(data_dir).token
    given = os.environ.get("REGROUP_TOKEN") if data_dir is None else None
    try:
        if given is None and not path.exists():
            why = f"{path.parent} has no token: start the coordinator once, or name its data directory (--data-dir)"
            terminal.give_up(why, terminal.FAILED)
        typer.echo(token_for_metrics(api_token(path, given)))
    except (OSError, BadToken) as error:
        terminal.give_up(str(error), terminal.FAILED)


def _places(data_dir: Path | None) -> Places:
    return Places((data_dir or default_data_dir(os.environ)).expanduser())
