"""Where the ranks of a group leave each other their addresses: a notice board on a socket of its own.

Owns: the server each trainer binds before it is prepared, and the store that a forming group reads and writes.
Refuses to know: what the notices say, how many ranks there are, and which generation it is (the prefix is opaque).
Does not guarantee: authentication (bind it to a trusted address), or that notices outlive those who read them: they are
dropped with the last connection of their prefix.

Why not torch's own TCPStore: each of its connections asks the name server for the peer's name, only to log it, so that
a slow name server delays a regroup by seconds; its waiting cannot be cancelled; and it listens on every interface.
"""

import selectors
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from torch.distributed.distributed_c10d import Store

from regroup.worker.vital import Vital

FRAME = struct.Struct(">HI")  # lengths of key and value; they follow. A connection's first frame: no key, its prefix.
LARGEST = 1 << 16  # bytes of a value; addresses have about a hundred
MOST = 1 << 12  # notices under a prefix; a group has two per rank


class Rendezvous:
    """A trainer's own notice board, on an ephemeral port of `host` alone. Raises OSError if `host` cannot be bound."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family, backlog=1024)
        self._listener.setblocking(False)
        self.address = f"{host}:{self._listener.getsockname()[1]}"
        self._boards: dict[bytes, _Board] = {}
        self._ready = selectors.DefaultSelector()
        self._stopped, self._stop = socket.socketpair()
        self._thread = Vital(target=self._serve, name="rendezvous")
        self._thread.start()

    def close(self) -> None:
        """Stop to serve; whoever is connected reads its end."""
        self._stop.close()
        self._thread.join()

    def _serve(self) -> None:
        with self._ready as ready, self._listener, self._stopped:
            ready.register(self._stopped, selectors.EVENT_READ)
            ready.register(self._listener, selectors.EVENT_READ)
            while True:
                for key, events in ready.select():
                    if key.fileobj is self._stopped:
                        for guest in [key.data for key in ready.get_map().values() if key.data is not None]:
                            guest.end.close()
                        return
                    if key.fileobj is self._listener:
                        with suppress(OSError):  # it left before it was let in
                            end, _ = self._listener.accept()
                            end.setblocking(False)
                            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # or notices wait 40 ms
                            ready.register(end, selectors.EVENT_READ, _Guest(end))
                        continue
                    if events & selectors.EVENT_WRITE:
                        self._tell(key.data)
                    if events & selectors.EVENT_READ and not self._hear(key.data):
                        ready.unregister(key.fileobj)
                        self._dismiss(key.data)

    def _hear(self, guest: "_Guest") -> bool:
        """Take what a guest says. False: it left, or spoke out of turn."""
        try:
            for key, value in guest.frames.feed(guest.end.recv(LARGEST)):
                if guest.board is None:
                    if key:
                        return False
                    guest.board = self._boards.setdefault(value, _Board(value))
                    guest.board.guests.append(guest)
                    self._tell(guest, b"".join(guest.board.notices.values()))
                elif len(guest.board.notices) == MOST:
                    return False
                else:
                    notice = guest.board.notices[key] = _frame(key, value)
                    for reader in guest.board.guests:
                        self._tell(reader, notice)
        except OSError:
            return False
        return True

    def _tell(self, guest: "_Guest", words: bytes = b"") -> None:
        """As much as its socket takes now, and the rest later: there may be more to read than fits there."""
        guest.untold += words
        try:
            del guest.untold[: guest.end.send(guest.untold)]
        except BlockingIOError:
            pass
        except OSError:  # it left: its own turn will say so
            guest.untold.clear()
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if guest.untold else 0)
        if events != self._ready.get_key(guest.end).events:
            self._ready.modify(guest.end, events, guest)

    def _dismiss(self, guest: "_Guest") -> None:
        guest.end.close()
        if guest.board is not None:
            guest.board.guests.remove(guest)
            if not guest.board.guests:
                del self._boards[guest.board.prefix]


class Meeting(Store):
    """One rank's view of a notice board, as torch's constructors read it. Belongs to one thread, but for `leave`.

    Raises OSError when the server cannot be reached or goes away, TimeoutError (an OSError) `timeout` seconds after it
    was made.
    """

    def __init__(self, address: tuple[str, int], prefix: str, timeout: float) -> None:
        super().__init__()
        self._deadline = time.monotonic() + timeout
        self._notices: dict[bytes, bytes] = {}
        self._frames = _Frames()
        self._end = socket.create_connection(address, timeout)
        try:
            self._end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._end.sendall(_frame(b"", prefix.encode()))
        except OSError:  # the server went away meanwhile
            self.close()
            raise

    def set(self, key: str, value: bytes | str) -> None:
        """Leave a notice for everybody, oneself included."""
        self._end.sendall(_frame(key.encode(), value.encode() if isinstance(value, str) else value))

    def get(self, key: str) -> bytes:
        """Wait for a notice."""
        while key.encode() not in self._notices:
            self._end.settimeout(max(self._deadline - time.monotonic(), 0.001))
            self._notices.update(self._frames.feed(self._end.recv(LARGEST)))
        return self._notices[key.encode()]

    def known(self, key: str) -> bytes:
        """A notice that was read already, while another one was waited for; empty: it was not."""
        return self._notices.get(key.encode(), b"")

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait for several notices, until this meeting's own deadline."""
        for key in keys:
            self.get(key)

    def leave(self) -> None:
        """From any thread: whoever waits in here raises at once."""
        with suppress(OSError):  # left, or closed by the server
            self._end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._end.close()


class _Board:
    def __init__(self, prefix: bytes) -> None:
        self.prefix = prefix
        self.notices: dict[bytes, bytes] = {}  # key -> its whole frame
        self.guests: list[_Guest] = []


class _Guest:
    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self.frames = _Frames()
        self.untold = bytearray()  # what its socket did not take yet
        self.board: _Board | None = None


class _Frames:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, heard: bytes) -> list[tuple[bytes, bytes]]:
        """The frames that are complete now. Raises ConnectionError at the end, or for a frame that is too large."""
        if not heard:
            raise ConnectionError("the other end closed")
        self._rest += heard
        frames = []
        while len(self._rest) >= FRAME.size:
            key, value = FRAME.unpack_from(self._rest)
            if value > LARGEST:
                raise ConnectionError(f"a frame of {value} bytes")
            end = FRAME.size + key + value
            if len(self._rest) < end:
                break
            frames.append((self._rest[FRAME.size : FRAME.size + key], self._rest[FRAME.size + key : end]))
            self._rest = self._rest[end:]
        return frames


def _frame(key: bytes, value: bytes) -> bytes:
    return FRAME.pack(len(key), len(value)) + key + value
