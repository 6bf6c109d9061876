"""Several coordinators, of which one leads: who is asked, and what is never sent twice."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from regroup.client import Client
from regroup.client.errors import NotLeading, NotRunning, Unavailable, Unreachable
from regroup.coordinator.serving import HttpServer, listen
from regroup.coordinator.standing_by import create_standby_app
from regroup.coordinator.tokens import write_endpoint
from regroup.wire.places import Endpoint


@pytest.fixture
def standby(served) -> Iterator[str]:
    """The URL of a coordinator that stands by."""
    server = HttpServer(create_standby_app(served.token, lambda: "host a, pid 7", lambda: True), listen("127.0.0.1", 0))
    thread = threading.Thread(target=lambda: asyncio.run(server.run_until_stopped()))
    thread.start()
    yield server.url
    server.stop()
    thread.join(20)


@pytest.fixture
def nobody() -> str:
    """A URL where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"http://127.0.0.1:{free.getsockname()[1]}"


@pytest.fixture
def deaf() -> Iterator[tuple[str, Callable[[], int]]]:
    """A URL where connections break once a request came, and how many did."""
    requests = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    requests.append(connection.recv(4096))

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", lambda: len(requests)
        server.shutdown(socket.SHUT_RDWR)
        thread.join(20)


def test_whoever_leads_is_found_behind_those_that_do_not_and_asked_first_from_then_on(served, standby, nobody):
    with Client(f"{nobody},{standby},{served.url}") as client:
        job = client.submit(task="digits", steps=5)
        assert client.url == served.url
        assert client.stop(job.id).id == job.id
        assert [each.id for each in client.jobs()] == [job.id]


def test_a_timeline_is_followed_from_whoever_leads(served, standby):
    with Client(f"{standby},{served.url}") as client:
        job = client.submit(task="digits", steps=5)
        following = client.events(job.id, follow=True)
        assert next(following).kind == "submitted"
        following.close()


def test_a_question_waits_while_the_lead_passes_on(served, standby, nobody):
    served.stop()
    later = threading.Timer(0.7, served.start)
    later.start()
    with Client(f"{standby},{served.url}") as client:
        assert client.jobs() == ()
    later.join()


def test_where_all_stand_by_for_too_long_the_leader_is_named(standby, nobody):
    with Client(f"{nobody},{standby}", timeout=0.3) as client, pytest.raises(NotLeading, match="host a, pid 7"):
        client.jobs()


def test_where_nobody_listens_all_addresses_are_named_at_once(places, nobody):
    other = nobody.replace("127.0.0.1", "localhost")
    with Client(f"{nobody},{other}") as client, pytest.raises(NotRunning) as error:
        client.jobs()
    assert str(error.value) == f"no coordinator answers at any of {nobody}, {other}"


def test_a_leader_in_trouble_says_more_than_one_that_stands_by(served, nobody):
    served.desk.ready = "the store is away"
    with Client(f"{served.url},{nobody}", timeout=0.3) as client, pytest.raises(Unavailable, match="the store is away"):
        client.submit(task="digits", steps=5)


def test_a_question_whose_answer_was_lost_is_put_to_the_next(served, deaf):
    with Client(f"{deaf[0]},{served.url}") as client:
        assert client.jobs() == ()
    assert deaf[1]() == 1


def test_a_command_whose_answer_was_lost_is_not_sent_to_another(served, deaf):
    with Client(served.url) as client:
        job = client.submit(task="digits", steps=5)
    with Client(f"{deaf[0]},{served.url}") as client:
        with pytest.raises(Unreachable):
            client.stop(job.id)
        assert not client.job(job.id).ended, "nobody was asked a second time"
    assert deaf[1]() == 1


def test_a_submission_whose_answer_was_lost_goes_to_the_next_under_the_same_key(served, deaf):
    with Client(f"{deaf[0]},{served.url}") as client:
        job = client.submit(task="digits", steps=5)
        assert [each.id for each in client.jobs()] == [job.id]
    assert deaf[1]() == 1


def test_a_client_of_this_machine_follows_the_coordinator_to_another_address(places, served, nobody):
    write_endpoint(places.endpoint, Endpoint(nobody, 1))
    with Client() as client:
        with pytest.raises(NotRunning):
            client.jobs()
        write_endpoint(places.endpoint, Endpoint(served.url, 1))
        assert client.jobs() == ()
        assert client.url == served.url
