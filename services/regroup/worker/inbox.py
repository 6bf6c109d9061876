"""What a trainer says to its agent, read on a thread of its own: of half a message nobody but this thread waits.

Owns: the thread, and the whole messages that were read and not taken.
Refuses to know: what they say, and asyncio.
Does not guarantee: the end of a message that a dead process began.
"""

import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection


class Inbox:
    """Of one trainer. `on_message` is called on the reading thread, once after each message."""

    def __init__(self, pipe: Connection, on_message: Callable[[], object]) -> None:
        self._pipe = pipe
        self._on_message = on_message
        self._messages: deque[bytes] = deque()
        self._reading = threading.Thread(target=self._read, name="inbox", daemon=True)
        self._reading.start()

    def take(self) -> Iterator[bytes]:
        """The messages that came, in their order; each is given once. Never waits."""
        while self._messages:
            yield self._messages.popleft()

    def finish(self) -> None:
        """Have all that a dead process said. Waits for no other that inherited its end of the pipe."""
        with socket.socket(fileno=os.dup(self._pipe.fileno())) as ours:
            ours.shutdown(socket.SHUT_RD)  # after what is in it, the pipe ends
        self._reading.join()

    def _read(self) -> None:
        while True:
            try:
                self._messages.append(self._pipe.recv_bytes())
            except (EOFError, OSError):
                return
            self._on_message()
