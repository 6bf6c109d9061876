"""Storage: a file is there whole or not at all, in a folder, an object store or elsewhere; and what goes wrong is said.

The object store is a real S3 API. What a killed writer leaves is looked at after real kills.
"""

import os
import resource
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from regroup.worker.discarding import DEAD, HALF
from regroup.worker.storage import Absent, Storage, StorageFailed, url
from regroup.worker.storage.outcome import measure

LIMIT = 10.0  # seconds
CONTENT = bytes(range(256)) * 100


def name(checksum: str) -> str:
    return f"file-{checksum[:8]}"


def fill(path: Path) -> None:
    path.write_bytes(CONTENT)


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def got(storage: Storage, path: str, size: int = len(CONTENT)) -> bytes:
    return storage.read(path, size, lambda file: file.read())


# --- Every place


def test_a_file_comes_back_under_the_name_of_its_content(
    kept: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(url, "BLOCK", 1000)  # many of them, and the last one short
    stored = kept.storage.put("job", name, fill)
    checksum = sha256(CONTENT).hexdigest()
    assert (stored.checksum, stored.bytes) == (checksum, len(CONTENT))
    assert stored.path == f"{kept.place}/job/file-{checksum[:8]}"
    assert got(kept.storage, stored.path) == CONTENT
    assert kept.storage.put("job", name, fill) == stored
    assert kept.names == [f"job/file-{checksum[:8]}"]
    assert files(tmp_path / "scratch") == []


@pytest.mark.parametrize("damaged", [CONTENT[:100], CONTENT[:-1] + b"x"], ids=["truncated", "flipped"])
def test_a_damaged_file_under_its_name_is_written_anew(
    kept: Any, monkeypatch: pytest.MonkeyPatch, damaged: bytes
) -> None:
    monkeypatch.setattr(url, "BLOCK", 1000)
    stored = kept.storage.put("job", name, fill)
    kept.replace(stored.path, damaged)
    assert kept.storage.put("job", name, fill) == stored
    assert got(kept.storage, stored.path) == CONTENT
    assert len(kept.names) == 1


def test_a_writer_that_fails_half_way_leaves_nothing(kept: Any, tmp_path: Path) -> None:
    def fails(path: Path) -> None:
        path.write_bytes(CONTENT)
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        kept.storage.put("job", name, fails)
    assert kept.names == []
    assert files(tmp_path) == []


def test_what_is_not_there_or_of_another_size_is_absent_by_name(kept: Any, tmp_path: Path) -> None:
    stored = kept.storage.put("job", name, fill)
    with pytest.raises(Absent, match=f"{stored.path}.* has {len(CONTENT)} bytes, not 7"):
        got(kept.storage, stored.path, 7)
    with pytest.raises(Absent, match=f"{stored.path}x is not there") as absent:
        got(kept.storage, f"{stored.path}x")
    assert absent.value.missing
    with pytest.raises(Absent, match=f"{kept.place}/job is") as absent:
        got(kept.storage, f"{kept.place}/job")
    assert not absent.value.missing
    assert files(tmp_path / "scratch") == []


def test_a_folder_that_is_not_there_may_not_be_mounted_and_says_nothing_of_its_files(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path / "kept"), tmp_path / "scratch")
    stored = storage.put("job", name, fill)
    (tmp_path / "kept" / "job").rename(tmp_path / "away")
    with pytest.raises(StorageFailed, match=f"{stored.path} cannot be read .its folder is not there.: mount it"):
        got(storage, stored.path)


def test_a_file_in_a_folder_is_synced_before_it_gets_its_name_and_its_folders_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of a file that survives a loss of power is in a folder that does."""
    synced: list[tuple[str, bool]] = []
    kept, fsync = tmp_path / "kept", os.fsync

    def watched(number: int) -> None:
        fsync(number)
        there = kept / "job"
        synced.append(
            (os.readlink(f"/proc/self/fd/{number}"), any(each.name.startswith("file-") for each in there.iterdir()))
        )

    monkeypatch.setattr(os, "fsync", watched)
    Storage(str(kept), tmp_path / "scratch").put("job", name, fill)
    (half, named), *folders = synced
    assert (Path(half).parent, Path(half).name[0], named) == (kept / "job", ".", False)
    assert folders == [(str(kept / "job"), True), (str(kept), True)]


@contextmanager
def full_disk(at: int) -> Iterator[None]:
    """No file of this process may grow beyond that."""
    _, hard = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (at, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_full_disk_is_said_and_leaves_no_debris(kept: Any, tmp_path: Path) -> None:
    with full_disk(10_000), pytest.raises(StorageFailed, match=r"\(File too large\): free some space there") as error:
        kept.storage.put("job", name, fill)
    assert "\n" not in str(error.value)
    assert kept.names == []
    assert files(tmp_path) == []
    kept.storage.put("job", name, fill)


FILLS = """
import sys
from pathlib import Path
from regroup.worker.storage import Storage, StorageFailed

place, scratch = sys.argv[1:]
for size in (3_000_000, 100_000):
    try:
        Storage(place, Path(scratch)).put("job", lambda checksum: "file", lambda path: path.write_bytes(b"x" * size))
    except StorageFailed as error:
        print(error)
print(*(each.name for each in (Path(place) / "job").iterdir()))
"""
SMALL_DISK = 'mount --make-rprivate / && mount -t tmpfs -o size=1m none "$1" && exec "$2" -c "$3" "$1" "$4"'


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="NO DISK OF ITS OWN: it needs root")
def test_a_disk_that_fills_in_the_middle_of_a_file_is_said_and_what_fits_is_kept_later(tmp_path: Path) -> None:
    given = ["sh", str(tmp_path), sys.executable, FILLS, str(tmp_path / "scratch")]
    command = ["unshare", "--mount", "--", "sh", "-c", SMALL_DISK, *given]
    said, left = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert (
        said
        == f"{tmp_path}/job cannot be written (No space left on device): free some space there, or mend its permissions"
    )
    assert left == "file"


def test_a_disk_too_full_for_a_download_is_said_and_is_no_damage(bucket: str, tmp_path: Path) -> None:
    storage = Storage(bucket, tmp_path / "scratch")
    stored = storage.put("job", name, fill)
    with full_disk(10_000), pytest.raises(StorageFailed, match=rf"scratch cannot hold a copy of {stored.path} \(File"):
        got(storage, stored.path)
    assert files(tmp_path) == []
    assert got(storage, stored.path) == CONTENT


KILLED = """
import os, signal, sys
from pathlib import Path
from regroup.worker import storage

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def fill(path):
    path.write_bytes(b"x" * 20_000_000)
    if where == "filling":
        die()

where, place, scratch = sys.argv[1:]
if where == "syncing":
    os.fsync = die
if where == "moving":
    from fsspec.implementations.local import LocalFileSystem
    LocalFileSystem.mv = die
storage.Storage(place, Path(scratch)).put("job", lambda checksum: "file", fill)
print("done")
"""


def writer(where: str, place: str, scratch: Path) -> "subprocess.Popen[str]":
    """A process that keeps a large file and is killed, by itself if `where` says so."""
    command = [sys.executable, "-c", KILLED, where, place, str(scratch)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(("where", "protocol"), [("filling", ""), ("syncing", ""), ("moving", "local://")])
def test_a_killed_writer_leaves_no_file_of_that_name(tmp_path: Path, where: str, protocol: str) -> None:
    """`local://` goes the way of every file system that shows files as they grow."""
    with writer(where, f"{protocol}{tmp_path}/kept", tmp_path / "scratch") as process:
        assert process.wait(60) == -9
    (left,) = files(tmp_path)
    assert HALF.fullmatch(left.name), "what sweeps a job's folder knows it"


@pytest.mark.parametrize(("written", "old"), [(0, False), (3_700, False), (100_000, True)])
def test_half_a_file_behind_a_url_is_old_once_no_two_clocks_differ_so_much(
    tmp_path: Path, written: int, old: bool
) -> None:
    half = tmp_path / "kept/job" / f".{'a' * 16}"
    half.parent.mkdir(parents=True)
    half.touch()
    os.utime(half, (time.time() - written,) * 2)
    ((name, age),) = Storage(f"local://{tmp_path}/kept", tmp_path).names("job").items()
    assert name == half.name
    assert (age > DEAD) is old


def test_a_writer_killed_before_its_upload_leaves_what_the_next_one_tidies(bucket: str, tmp_path: Path) -> None:
    with writer("filling", bucket, tmp_path) as process:
        assert process.wait(60) == -9
    assert len(files(tmp_path)) == 1
    Storage(bucket, tmp_path).tidy()
    assert files(tmp_path) == []


def test_a_writer_killed_in_its_upload_leaves_no_object_and_no_copy(
    bucket: str, s3_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_kept: Any
) -> None:
    with half_way(s3_server, 1_000_000) as (address, reached):
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        with writer("", bucket, tmp_path) as process:
            assert reached.wait(60)
            process.kill()
            process.wait()
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    assert make_kept(bucket).names == []
    assert files(tmp_path) == []


@contextmanager
def half_way(server: str, most: int) -> Iterator[tuple[str, threading.Event]]:
    """A way to a server that lets so many bytes of a connection through, then says so and goes on no more."""
    host, port = server.removeprefix("http://").split(":")
    reached, ends = threading.Event(), list[tuple[socket.socket, socket.socket]]()

    def forward(source: socket.socket, target: socket.socket, left: float) -> None:
        try:
            while left > 0 and (block := source.recv(65536)):
                target.sendall(block)
                left -= len(block)
        except OSError:
            return
        if left <= 0:
            reached.set()

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            far = socket.create_connection((host, int(port)))
            ends.append((client, far))
            for one, other, left in ((client, far, most), (far, client, float("inf"))):
                threading.Thread(target=forward, args=(one, other, left), daemon=True).start()

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", reached
        listener.shutdown(socket.SHUT_RDWR)
        for client, far in ends:
            far.settimeout(30)
            far.shutdown(socket.SHUT_WR)
            while far.recv(65536):  # until the server has made of it whatever it makes
                pass
            client.close()
            far.close()


# --- A folder that does not answer


def test_a_folder_that_does_not_answer_is_given_up_in_time(tmp_path: Path) -> None:
    """To open a pipe that nobody writes to takes for ever, as with a server that is gone."""
    storage = Storage(str(tmp_path), tmp_path / "scratch", patience=0.3)
    (tmp_path / "job").mkdir()
    os.mkfifo(tmp_path / "job" / "file")
    slow = "look whether its disk or server answers; if it is only slow, give the job a longer step_timeout"
    for _ in range(2):
        with pytest.raises(StorageFailed, match=f"^{tmp_path}/job/file could not be read in 0.3 s: {slow}$"):
            got(storage, f"{tmp_path}/job/file")
    assert len(left_behind(tmp_path)) == 1
    with pytest.raises(StorageFailed, match=f"^{tmp_path}/job could not be written in 0.3 s: {slow}$"):
        storage.put("job", name, fill)
    with (tmp_path / "job" / "file").open("wb"):  # it answers after all
        for thread in left_behind(tmp_path):
            thread.join(LIMIT)
    assert got(storage, storage.put("job", name, fill).path) == CONTENT


def test_what_was_given_up_leaves_no_file_when_it_comes_to_its_end(tmp_path: Path) -> None:
    """What it is filled from has changed by then: the job trains on."""
    storage, goes_on = Storage(str(tmp_path), tmp_path / "scratch", patience=0.3), threading.Event()

    def hangs(path: Path) -> None:
        path.write_bytes(CONTENT[:100])
        assert goes_on.wait(LIMIT)
        path.write_bytes(CONTENT)

    with pytest.raises(StorageFailed, match=f"^{tmp_path}/job could not be written in 0.3 s"):
        storage.put("job", name, hangs)
    goes_on.set()
    for thread in left_behind(tmp_path):
        thread.join(LIMIT)
    assert files(tmp_path) == []
    storage.put("job", name, fill)
    assert len(files(tmp_path)) == 1


def left_behind(folder: Path) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(f"storage {folder}")]


# --- Deleting


def test_what_is_deleted_is_gone_and_what_was_not_there_is_as_good_as_gone(kept: Any) -> None:
    stored = kept.storage.put("job", name, fill)
    assert kept.storage.delete([f"{stored.path}x", stored.path]) == {f"{stored.path}x": "", stored.path: ""}
    assert kept.names == []


def test_one_that_cannot_be_deleted_is_said_and_the_others_go(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path), tmp_path / "scratch")
    stored = storage.put("job", name, fill)
    (tmp_path / "job" / "folder").mkdir()
    said = storage.delete([f"{tmp_path}/job/folder", stored.path])
    assert said == {
        f"{tmp_path}/job/folder": f"{tmp_path}/job/folder cannot be deleted (Is a directory): mend its permissions",
        stored.path: "",
    }


def test_of_many_those_that_went_in_time_are_said_and_of_none_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are asked for again: the one that hangs is then the first."""
    storage, goes_on = Storage(str(tmp_path), tmp_path / "scratch", patience=0.3), threading.Event()
    unlink = Path.unlink

    def slow(path: Path, missing_ok: bool = False) -> None:
        if path.name == "hangs":
            assert goes_on.wait(LIMIT)
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", slow)
    paths = [f"{tmp_path}/job/{each}" for each in ("a", "hangs", "b")]
    assert storage.delete(paths) == {paths[0]: ""}
    (path, error), *others = storage.delete(paths[1:]).items()
    assert path == paths[1]
    assert error.startswith(f"{path} could not be deleted in 0.3 s: look whether its disk or server answers")
    assert others == []
    assert len(left_behind(tmp_path)) == 1
    goes_on.set()
    for thread in left_behind(tmp_path):
        thread.join(LIMIT)
    assert storage.delete(paths[2:]) == {paths[2]: ""}


def test_many_are_deleted_behind_a_url_with_one_client(bucket: str, tmp_path: Path) -> None:
    from aiobotocore.session import AioSession

    storage = Storage(bucket, tmp_path / "scratch")
    paths = [storage.put("job", lambda _, number=number: f"file-{number}", fill).path for number in range(3)]
    made: list[str] = []
    create = AioSession.create_client

    def counted(self: Any, service: str, *given: Any, **more: Any) -> Any:
        made.append(service)
        return create(self, service, *given, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AioSession, "create_client", counted)
        assert storage.delete(paths) == dict.fromkeys(paths, "")
    assert made == ["s3"]


# --- S3 that refuses, is not there, or is silent


def test_of_uploads_that_are_given_up_one_at_most_stays_on_the_disk(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a whole state there, in a file without a name, and a thread."""
    storage = Storage(bucket, tmp_path, patience=0.5)
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        for _ in range(3):
            with pytest.raises(StorageFailed, match=f"^{bucket}/job could not be written in 0.5 s"):
                storage.put("job", name, fill)
        drafts = {name for name in open_files() if name.startswith(str(tmp_path))}
        assert len(drafts) == 1
        assert len([one for one in threading.enumerate() if one.name.startswith(f"storage {bucket}")]) == 1


def open_files() -> Iterator[str]:
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # what listed them
            yield os.readlink(f"/proc/self/fd/{number}")


def test_a_copy_to_upload_that_takes_too_long_is_given_up_in_time_and_never_sent(
    make_kept: Any, bucket: str, tmp_path: Path
) -> None:
    """What it is filled from has changed by then: the job trains on."""
    storage, goes_on = Storage(bucket, tmp_path / "scratch", patience=0.3), threading.Event()

    def hangs(path: Path) -> None:
        assert goes_on.wait(LIMIT)
        path.write_bytes(CONTENT)

    with pytest.raises(StorageFailed, match=f"^{bucket}/job could not be written in 0.3 s"):
        storage.put("job", name, hangs)
    goes_on.set()
    for thread in [one for one in threading.enumerate() if one.name.startswith(f"storage {bucket}")]:
        thread.join(LIMIT)
    assert make_kept(bucket).names == files(tmp_path) == []


def test_a_large_file_goes_in_parts_and_comes_back(bucket: str, tmp_path: Path) -> None:
    size = 101 * 2**20  # from 100 MiB on

    def large(path: Path) -> None:
        with path.open("wb") as file:
            file.truncate(size)

    storage = Storage(bucket, tmp_path, patience=90)
    stored = storage.put("job", name, large)
    assert storage.read(stored.path, size, measure) == (stored.checksum, size)


def test_a_bucket_that_does_not_exist_is_named_and_not_created(bucket: str, tmp_path: Path) -> None:
    storage = Storage("s3://no-such-bucket/prefix", tmp_path)
    why = r"^s3://no-such-bucket/prefix/job/.* cannot be written \(.*does not exist\): create the bucket"
    for _ in range(2):
        with pytest.raises(StorageFailed, match=why):
            storage.put("job", name, fill)
    with pytest.raises(StorageFailed, match=r"s3://no-such-bucket/job cannot be read \(no-such-bucket is not there\)"):
        got(storage, "s3://no-such-bucket/job")
    assert files(tmp_path) == []


def test_an_s3_that_refuses_is_told_from_damage(
    bucket: str, s3_server: str, s3_environ: dict[str, str], tmp_path: Path
) -> None:
    storage = Storage(bucket, tmp_path)
    stored = storage.put("job", name, fill)
    httpx.post(f"{s3_server}/moto-api/reset-auth", content=b"0")  # from now on nobody has any rights
    try:
        for done, call in (
            ("written", lambda: storage.put("job", name, fill)),
            ("read", lambda: got(storage, stored.path)),
        ):
            with pytest.raises(
                StorageFailed, match=f"^{bucket}/job/.* cannot be {done} .*check the credentials"
            ) as error:
                call()
            is_one_line_without_secrets(error.value, s3_environ)
    finally:
        httpx.post(f"{s3_server}/moto-api/reset-auth", content=b"inf")
    assert got(storage, stored.path) == CONTENT


def test_without_credentials_it_says_what_is_missing(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(StorageFailed, match=f"^{bucket}/job/.*check the credentials in this worker's environment"):
        Storage(bucket, tmp_path).put("job", name, fill)


def is_one_line_without_secrets(error: Exception, environ: dict[str, str]) -> None:
    assert "\n" not in str(error)
    assert error.__cause__ is error.__context__ is None  # they would be in the trainer's log
    for secret in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        assert environ[secret] not in str(error)


def test_an_endpoint_where_nobody_listens_is_an_error_that_names_the_bucket(
    bucket: str, s3_environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    with pytest.raises(StorageFailed, match=f"^{bucket}/job/.* cannot be written .*check the address") as error:
        Storage(bucket, tmp_path).put("job", name, fill)
    is_one_line_without_secrets(error.value, s3_environ)


@pytest.mark.parametrize("done", ["written", "read"])
def test_an_endpoint_that_is_silent_is_given_up_in_time(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: str
) -> None:
    storage = Storage(bucket, tmp_path, patience=1.5)
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        call: Callable[[], Any] = lambda: storage.put("job", name, fill)  # noqa: E731
        if done == "read":
            call = lambda: got(storage, f"{bucket}/job/file")  # noqa: E731
        what = f"{bucket}/job" if done == "written" else f"{bucket}/job/file"
        with pytest.raises(StorageFailed, match=f"^{what} could not be {done} in 1.5 s: check the address"):
            call()
    assert files(tmp_path) == []
