"""The settings of an agent: read once, from the environment, then passed on as a value."""

import os
import socket
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from regroup.wire.places import default_data_dir


class AgentSettings(BaseSettings):
    """Environment variables carry the prefix REGROUP_; command-line options of the same names win."""

    model_config = SettingsConfigDict(env_prefix="REGROUP_", frozen=True, extra="ignore")

    worker: str = Field(default_factory=lambda: f"{socket.gethostname().split('.')[0]}-0")
    device: str = "cpu"
    coordinator: str | None = None  # tcp://host:port of the link; None: as the data directory says
    host: str = "127.0.0.1"  # the address of this machine that other trainers connect to
    data_dir: Path = Field(default_factory=lambda: default_data_dir(os.environ))
    threads: int = Field(default=1, ge=1)  # of torch, within one operation
    log_level: str = "INFO"
