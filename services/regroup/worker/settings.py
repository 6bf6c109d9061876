"""The settings of an agent, read once from the environment (REGROUP_*) and passed on as one frozen value.

Owns: names, defaults and bounds of what may be set for one worker.
Refuses to know: what a job may set (that comes with its orders) and what the settings are used for.
"""

import re
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr

from regroup.wire.environment import Host, ProcessSettings
from regroup.wire.join import read_join_token
from regroup.wire.link import WORKER_NAME
from regroup.worker.device import expect_device
from regroup.worker.name import STAR, usual
from regroup.worker.place import place_of

LEAVE_LIMIT = 25.0  # seconds to hand over before it ends; below the 30 that Kubernetes gives before it kills


def _readable(token: SecretStr) -> SecretStr:
    read_join_token(token.get_secret_value())
    return token


def _addresses(text: str) -> str:
    """An IPv6 address without brackets would be read as a host and a port of which nobody thought."""
    for address in text.split(","):
        found = re.fullmatch(r"tcp://(\[[0-9A-Fa-f:.]+\]|[^\s/,:\[\]]+):([0-9]{1,5})", address)
        if found is None or not 0 < int(found[2]) < 65536:
            raise ValueError("must be tcp://host:port, IPv6 as tcp://[fd00::1]:8788; of several, with commas between")
    return text


def _name(wanted: str) -> str:
    head, star, tail = wanted.partition(STAR)
    if tail or not WORKER_NAME.fullmatch(f"{head}0" if star else head):
        raise ValueError(f"must match {WORKER_NAME.pattern}, and may end with {STAR} for the first number that is free")
    return wanted


Name = Annotated[str, AfterValidator(_name)]
Device = Annotated[str, AfterValidator(expect_device)]
Place = Annotated[str, AfterValidator(place_of)]
LinkAddresses = Annotated[str, AfterValidator(_addresses)]
JoinToken = Annotated[SecretStr, AfterValidator(_readable)]


class AgentSettings(ProcessSettings):
    """Everything that may be set for an agent, as REGROUP_<NAME>."""

    worker: Name = Field(default_factory=usual)
    device: Device = "cpu"
    coordinator: LinkAddresses | None = None  # each tcp://host:port of a link; None: as the data directory says
    join: JoinToken | None = None  # lets it in without files of keys; None: those in the data directory
    data_host: Host | None = None  # of this machine, for other trainers; None: the one that leads to the coordinator
    checkpoints: Place | None = None  # a folder or a URL; None: `checkpoints` in the data directory
    threads: int = Field(default=1, ge=1)  # of torch, within one operation
    leave_limit: Annotated[float, Field(ge=0, le=86400, allow_inf_nan=False)] = LEAVE_LIMIT
