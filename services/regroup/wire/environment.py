"""How a process reads what its operator set: REGROUP_* variables become one frozen value, read once at its start.

Owns: what the settings of all processes share, and one line for each variable that cannot be used.
Refuses to know: which settings a process has beside those (its own `settings`), and what they are used for.
"""

import os
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from regroup.wire.folders import told
from regroup.wire.places import default_data_dir
from regroup.wire.variables import PREFIX, SECRETS_DIR

Host = Annotated[str, Field(min_length=1)]  # an empty one would bind every interface


class BadSettings(Exception):
    """A variable has a value that cannot be used. One line for each, naming it."""


class ProcessSettings(BaseSettings):
    """What every process of a cluster reads."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore", hide_input_in_errors=True)

    data_dir: Path
    log_level: Literal["debug", "info", "warning", "error"] = "info"


Read = TypeVar("Read", bound=ProcessSettings)


def read(kind: type[Read], **given: Any) -> Read:
    """The settings of this kind: those `given` on the command line, else in the environment, else in files.

    Raises BadSettings.
    """
    folder = os.environ.get(SECRETS_DIR) or None
    if folder is not None and not os.path.isdir(folder):
        raise BadSettings(f"{SECRETS_DIR}: there is no folder {folder}: mount the secrets there, or leave it out")
    try:
        return kind(data_dir=default_data_dir(os.environ), _secrets_dir=folder, **given)
    except ValidationError as error:
        raise BadSettings("\n".join(_line(each["loc"], each["msg"]) for each in error.errors())) from None
    except SettingsError as error:
        if not isinstance(cause := error.__cause__, OSError):
            raise
        raise BadSettings(f"{SECRETS_DIR}: {told(cause)}") from None


def _line(location: tuple[int | str, ...], message: str) -> str:
    variable = f"{PREFIX}{str(location[0]).upper()}: " if location else ""
    return variable + message.removeprefix("Value error, ")
