"""The embedded store as a process of its own, for coordinators that share it: `python -m regroup.lab.store DATA_DIR`.

Owns: that it runs until SIGTERM, and ends when its server does, so that whoever started it starts another.
Refuses to know: the server (`coordinator.embedded`), and who uses it.
"""

import signal
import sys
import threading
from pathlib import Path

from regroup.coordinator import embedded

LOOK = 0.2  # seconds between looks at the server


def main() -> None:
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    try:
        with embedded.start(Path(sys.argv[1])) as server:
            while not stopping.wait(LOOK):
                server.check()
    except embedded.EmbeddedFailed as error:
        sys.exit(f"regroup store: {error}")


if __name__ == "__main__":
    main()
