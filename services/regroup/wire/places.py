"""Where the processes of one machine find each other's files: token, endpoint, link and keys.

Owns: the layout of the data directory, shared by the coordinator (who writes), the agents and the client (who read),
and that nobody ever reads half of such a file.
Refuses to know: what is inside the files, except the endpoint, whose shape both sides need.
Does not guarantee: that anything is there, or that the coordinator which wrote an endpoint still lives.
"""

import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from regroup.wire.folders import expect_writable

HOST, PORT = "127.0.0.1", 8787  # where a coordinator answers REST, unless it is told otherwise


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a running coordinator answers REST."""

    url: str
    pid: int

    def encode(self) -> str:
        return json.dumps({"url": self.url, "pid": self.pid}) + "\n"

    @classmethod
    def decode(cls, text: str) -> "Endpoint":
        """Raises ValueError if the text is no endpoint."""
        said = json.loads(text)
        match said:
            case {"url": str(url), "pid": int(pid)}:
                return cls(url, pid)
        raise ValueError("an endpoint is a JSON object with url and pid")


@dataclass(frozen=True, slots=True)
class Places:
    """The paths below one data directory."""

    root: Path

    @property
    def token(self) -> Path:
        """The bearer token of the REST API, readable by its owner only."""
        return self.root / "token"

    @property
    def endpoint(self) -> Path:
        return self.root / "endpoint"

    @property
    def link(self) -> Path:
        """The address of the running coordinator's link, tcp://host:port."""
        return self.root / "link"

    def link_address(self) -> str | None:
        """What stands in `link`; None while it says nothing."""
        try:
            return self.link.read_text(errors="replace").strip() or None
        except OSError:
            return None

    @property
    def keys(self) -> Path:
        """The folder of the link's key pairs."""
        return self.root / "keys"

    def make(self) -> None:
        """Make the data directory, for its owner only. Raises OSError, saying what to do instead."""
        advice = "give another one, with REGROUP_DATA_DIR or `regroup up --data-dir`"
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise OSError(f"cannot make the data directory {self.root} ({error.strerror}): {advice}") from error
        expect_writable(self.root, "the data directory", advice)


def write_privately(path: Path, content: bytes, *, replace: bool) -> None:
    """The whole content or nothing appears at `path`, mode 0600. Raises FileExistsError unless it may replace."""
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # made with mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(draft, path)
        else:
            os.link(draft, path)
    finally:
        Path(draft).unlink(missing_ok=True)


def write_once(path: Path, content: bytes) -> None:
    """So, too, unless something is there already: of several that start at once the first makes it for all."""
    with suppress(FileExistsError):
        write_privately(path, content, replace=False)


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """`REGROUP_DATA_DIR`, else `$XDG_DATA_HOME/regroup`, else `~/.local/share/regroup`."""
    if given := environ.get("REGROUP_DATA_DIR"):
        return Path(given).expanduser()
    xdg = environ.get("XDG_DATA_HOME", "")
    shared = Path(xdg) if Path(xdg).is_absolute() else Path.home() / ".local" / "share"
    return shared / "regroup"
