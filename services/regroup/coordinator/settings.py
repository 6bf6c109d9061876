"""The coordinator's settings, read once from the environment (REGROUP_*) and passed on as one frozen value.

Owns: names, defaults and bounds of what an operator may set.
Refuses to know: what a job may set (that comes through REST) and what the settings are used for.
"""

from typing import Annotated, Self

from pydantic import Field, SecretStr, model_validator

from regroup.core.cluster import Policy
from regroup.wire.environment import Host, ProcessSettings
from regroup.wire.places import HOST, PORT
from regroup.wire.variables import PREFIX

_USUAL = Policy()

Port = Annotated[int, Field(ge=0, le=65535)]
Seconds = Annotated[float, Field(gt=0, le=86400, allow_inf_nan=False)]


class Settings(ProcessSettings):
    """Everything an operator may set, as REGROUP_<NAME>. Durations are seconds."""

    host: Host = HOST
    port: Port = PORT  # of REST; 0: any free one
    link_host: Host = "127.0.0.1"
    link_port: Port = 8788  # of the agents' link; 0: any free one
    redis_url: SecretStr | None = None  # None: the embedded store, in the data directory
    redis_password: SecretStr | None = None  # of that Redis; None: as its URL says
    store_limit: Annotated[float, Field(ge=0, le=86400, allow_inf_nan=False)] = 30.0  # to wait for it at the start
    standby: bool = False  # where another leads, wait until it does no more
    token: SecretStr | None = None  # of REST; None: the one in the data directory, made at the first start

    heartbeat_interval: Seconds = _USUAL.heartbeat_interval
    tick: Seconds = _USUAL.tick
    detached_limit: Seconds = _USUAL.detached_limit
    detached_margin: Seconds = _USUAL.detached_margin
    leader_lease: Seconds = _USUAL.leader_lease
    prepare_limit: Seconds = _USUAL.prepare_limit
    halt_limit: Seconds = _USUAL.halt_limit
    hang_floor: Seconds = _USUAL.hang_floor
    form_limit: Seconds = _USUAL.form_limit
    absent_limit: Seconds = _USUAL.absent_limit
    forget_limit: Annotated[float, Field(gt=0, allow_inf_nan=False)] = _USUAL.forget_limit
    save_retry: Seconds = _USUAL.save_retry
    read_retry: Seconds = _USUAL.read_retry
    error_limit: Annotated[int, Field(ge=0)] = _USUAL.error_limit
    error_forget: Annotated[float, Field(gt=0, allow_inf_nan=False)] = _USUAL.error_forget

    @model_validator(mode="after")
    def _limits_leave_room(self) -> Self:
        """A worker must be able to miss two heartbeats and live."""
        if self.detached_limit <= 2 * self.heartbeat_interval:
            raise ValueError(f"{PREFIX}DETACHED_LIMIT must be more than two heartbeat intervals")
        return self

    @model_validator(mode="after")
    def _a_standby_shares_a_store(self) -> Self:
        """An embedded one would end with whoever leads."""
        if self.standby and self.redis_url is None:
            raise ValueError(f"{PREFIX}STANDBY needs {PREFIX}REDIS_URL: the store of the coordinator that leads")
        return self

    def policy(self) -> Policy:
        return Policy(**{name: getattr(self, name) for name in Policy.__dataclass_fields__})
