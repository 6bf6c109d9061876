"""Servers that cannot be the store: real ones that refuse, and what stands at an address instead of one."""

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import redis.asyncio

from regroup.coordinator import embedded
from regroup.coordinator.persistence import StoreAway, StoreUnavailable
from regroup.coordinator.redis_advice import may_pass, too_old, what_to_do
from regroup.coordinator.store import RedisStore

Admin = redis.asyncio.Redis


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded.start(tmp_path_factory.mktemp("refusing")) as started:
        yield started.url


async def refusal(url: str, **more: str) -> str:
    store = RedisStore(url, **more)
    try:
        with pytest.raises(StoreUnavailable) as refused:
            await store.examine()
    finally:
        await store.close()
    said = str(refused.value)
    assert isinstance(refused.value, StoreAway) is ("start it, or set REGROUP_REDIS_URL" in said)
    assert said.startswith("no use of Redis at ")
    assert "\n" not in said
    return said


async def test_a_sound_one_is_examined_and_nothing_is_left_of_it(server: str, key_prefix: str) -> None:
    store = RedisStore(server, key_prefix)
    await store.examine()
    async with redis.asyncio.Redis.from_url(server) as admin:
        assert await admin.keys(key_prefix + "*") == []
    await store.close()


@pytest.mark.parametrize(
    ("reason", "passes"),
    [
        ("LOADING Redis is loading the dataset in memory", True),
        ("Error 111 connecting to 127.0.0.1:6379. Connection refused.", True),
        ("WRONGPASS invalid username-password pair or user is disabled.", False),
        ("READONLY You can't write against a read only replica (ReadOnlyError)", False),
    ],
)
def test_only_what_may_pass_by_itself_is_waited_for(reason: str, passes: bool) -> None:
    assert may_pass(what_to_do("ResponseError", reason, tls=False)) is passes


async def test_a_password_that_is_missing_or_wrong_is_told_with_where_it_is_set(server: str) -> None:
    async with redis.asyncio.Redis.from_url(server) as admin:
        await admin.config_set("requirepass", "the-right-one")
        try:
            assert "(it wants a password): set REGROUP_REDIS_PASSWORD" in await refusal(server)
            said = await refusal(server, password="hunter2")
            assert "): set REGROUP_REDIS_PASSWORD to its password" in said
            assert "hunter2" not in said
            right = RedisStore(server, password="the-right-one")
            await right.examine()
            await right.close()
        finally:
            await admin.config_set("requirepass", "")


@pytest.mark.parametrize(
    ("keys", "commands"),
    [
        (["other:*"], ["+@all"]),
        (["*"], ["+@read"]),
        (["*"], ["+@all", "-xadd"]),
        (["*"], ["+@all", "-zremrangebyrank"]),
    ],
    ids=["other keys", "may only read", "no timeline", "no trimming"],
)
async def test_a_right_that_is_missing_shows_at_the_start(server: str, keys: list[str], commands: list[str]) -> None:
    async with redis.asyncio.Redis.from_url(server) as admin:
        await admin.acl_deluser("guest")
        await admin.acl_setuser("guest", enabled=True, nopass=True, keys=keys, commands=commands)
    said = await refusal(server.replace("unix://", "unix://guest:any@"))
    assert said.endswith("let its user do all with keys that begin with regroup: (ACL SETUSER name ~regroup:* +@all)")


async def test_the_rights_that_are_asked_for_are_enough(server: str) -> None:
    async with redis.asyncio.Redis.from_url(server) as admin:
        await admin.acl_deluser("enough")
        commands = ["+@all", "-@admin", "-info"]
        await admin.acl_setuser("enough", enabled=True, nopass=True, keys=["regroup:*"], commands=commands)
    store = RedisStore(server.replace("unix://", "unix://enough:any@"))
    await store.examine()
    assert await store.weakness() is None, "its configuration is not for us to read"
    await store.close()


async def is_full(admin: Admin) -> None:
    await admin.config_set("maxmemory", "1")


async def is_a_replica(admin: Admin) -> None:
    await admin.replicaof("127.0.0.1", "1")  # type: ignore[no-untyped-call]


async def mended(admin: Admin) -> None:
    await admin.replicaof("NO", "ONE")  # type: ignore[no-untyped-call]
    await admin.config_set("maxmemory", "0")


@pytest.mark.parametrize(
    ("becomes", "advice"),
    [
        (is_full, "its memory is full: raise its maxmemory"),
        (is_a_replica, "it is a replica: set REGROUP_REDIS_URL to its primary"),
    ],
)
async def test_one_that_takes_nothing_says_why(
    server: str, becomes: Callable[[Admin], Awaitable[None]], advice: str
) -> None:
    async with redis.asyncio.Redis.from_url(server) as admin:
        await becomes(admin)
        try:
            assert (await refusal(server)).endswith(advice)
        finally:
            await mended(admin)


async def test_keys_of_something_else_are_not_ours(server: str) -> None:
    async with redis.asyncio.Redis.from_url(f"{server}?db=3") as admin:
        await admin.set("regroup:jobs", "a list of jobs to apply for")
    store = RedisStore(f"{server}?db=3")
    with pytest.raises(StoreUnavailable, match=r"something else has keys of our names there: name another database"):
        await store.load()
    await store.close()


async def test_a_database_that_is_not_there_is_told(server: str) -> None:
    assert (await refusal(f"{server}?db=99")).endswith("database that it has: redis://host:6379/0")


async def test_one_that_may_throw_keys_away_is_warned_of(server: str) -> None:
    store = RedisStore(server)
    async with redis.asyncio.Redis.from_url(server) as admin:
        await admin.config_set("maxmemory-policy", "allkeys-lru")
        try:
            said = str(await store.weakness())
        finally:
            await admin.config_set("maxmemory-policy", "noeviction")
    assert said.endswith("(maxmemory-policy allkeys-lru): configure maxmemory-policy noeviction")
    assert await store.weakness() is None
    await store.close()


async def test_a_redis_cluster_is_none_for_us(tmp_path: Path) -> None:
    path = tmp_path / "s"
    command = [embedded.find_server(), "--port", "0", "--cluster-enabled", "yes", "--cluster-port", "1"]
    where = ["--unixsocket", str(path), "--dir", str(tmp_path), "--logfile", str(tmp_path / "log")]
    process = await asyncio.create_subprocess_exec(*map(str, command), *where)
    try:
        for _ in range(500):
            if path.exists() or process.returncode is not None:
                break
            await asyncio.sleep(0.02)
        assert "set REGROUP_REDIS_URL to a single server" in await refusal(f"unix://{path}")
    finally:
        process.kill()
        await process.wait()


Answers = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(answers: Answers, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await answers(reader, writer)
        writer.close()

    served = await asyncio.start_server(once, "127.0.0.1", 0, ssl=tls)
    async with served:
        yield served.sockets[0].getsockname()[1]


async def an_old_redis(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """As much of Redis 6.0 as is asked before anything else."""
    while count := int((await reader.readuntil(b"\r\n"))[1:]):
        words = []
        for _ in range(count):
            length = int((await reader.readuntil(b"\r\n"))[1:])
            words.append((await reader.readexactly(length + 2))[:-2])
        match words[0].upper():
            case b"HELLO":
                writer.write(b"%1\r\n+proto\r\n:3\r\n")
            case b"INFO":
                body = b"# Server\r\nredis_version:6.0.16\r\nredis_mode:standalone\r\n"
                writer.write(b"$%d\r\n%s\r\n" % (len(body), body))
            case b"CLIENT":
                writer.write(b"+OK\r\n")
            case _:
                writer.write(b"-ERR unknown command\r\n")


async def test_one_that_is_too_old_is_told_with_the_oldest_that_will_do() -> None:
    async with listening(an_old_redis) as port:
        assert (await refusal(f"redis://127.0.0.1:{port}")) == (
            f"no use of Redis at 127.0.0.1:{port} (it is of version 6.0.16): "
            "update it: 6.2 is the oldest version that will do"
        )


@pytest.mark.parametrize(
    ("version", "old"), [("6.0.16", True), ("5.0", True), ("6.2.0", False), ("7.2.4", False), ("10.0.1", False)]
)
def test_versions_are_compared_as_numbers(version: str, old: bool) -> None:
    assert (too_old(version) is not None) is old


@pytest.mark.parametrize("version", [None, "unstable"])
def test_a_server_that_says_no_version_may_do(version: object) -> None:
    assert too_old(version) is None


async def a_web_server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(100)
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await writer.drain()


async def test_what_is_no_redis_is_told() -> None:
    async with listening(a_web_server) as port:
        assert "something else answers there" in await refusal(f"redis://127.0.0.1:{port}")


async def test_tls_to_one_that_speaks_none_is_told() -> None:
    async with listening(a_web_server) as port:
        said = await refusal(f"rediss://127.0.0.1:{port}")
    assert said.endswith("it speaks no TLS: write redis:// in REGROUP_REDIS_URL, not rediss://")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl to make a certificate")
async def test_tls_that_is_wanted_and_a_certificate_that_nobody_knows_are_told(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    request = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "1"]
    made = await asyncio.create_subprocess_exec("openssl", *request, "-keyout", key, "-out", certificate, stderr=-3)
    assert await made.wait() == 0
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # it is told what is no TLS
    async with listening(an_old_redis, tls) as port:
        assert (await refusal(f"redis://127.0.0.1:{port}")).endswith("where it wants TLS, write rediss://")
        said = await refusal(f"rediss://127.0.0.1:{port}")
        assert said.endswith("rediss://...?ssl_ca_certs=/path/to/ca.pem in REGROUP_REDIS_URL")
        known = await refusal(f"rediss://localhost:{port}?ssl_ca_certs={certificate}")
        assert "6.0.16" in known, "it got through"


def test_what_is_not_known_is_taken_for_one_that_does_not_run() -> None:
    assert what_to_do("ConnectionError", "refused", False) == "start it, or set REGROUP_REDIS_URL to where it runs"
    assert "no TLS" in what_to_do("TimeoutError", "Timeout connecting to server", True)
