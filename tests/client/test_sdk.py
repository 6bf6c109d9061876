"""The SDK against the real API on a real socket."""

import json
import threading
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest
from pydantic import TypeAdapter

from regroup.client import Client, transport
from regroup.client.errors import (
    Conflict,
    Invalid,
    NoRegroup,
    NotFound,
    NotRunning,
    Unauthorized,
    Unavailable,
    Unreachable,
    WaitedTooLong,
)
from regroup.client.sdk import server_sent
from regroup.client.transport import understood
from regroup.coordinator.persistence import Unconfirmed
from regroup.core.jobs import JobPhase, StepPoint
from regroup.core.messages.commands import StopJob
from regroup.core.spec import JobSpec


def test_a_job_is_submitted_listed_read_and_stopped(client):
    job = client.submit(task="digits", steps=5, options={"lr": 0.1})
    assert (job.phase, job.spec) == (JobPhase.QUEUED, JobSpec(task="digits", steps=5, options={"lr": 0.1}))
    assert client.jobs() == (job,)
    assert client.job(job.id) == job
    assert client.stop(job.id).phase is JobPhase.STOPPED
    assert client.stop(client.submit(task="digits", steps=5).id, now=True).phase is JobPhase.STOPPED


def test_a_job_is_paused_waited_for_and_resumed(client):
    job = client.submit(task="digits", steps=5)
    client.pause(job.id)
    assert client.wait(job.id, paused=True).phase is JobPhase.PAUSED
    with pytest.raises(WaitedTooLong, match="still paused"):
        client.wait(job.id, timeout=0.0)
    with pytest.raises(Conflict, match="no workers that could be held"):
        client.pause(job.id, hold=True)
    assert client.resume(job.id).phase is JobPhase.QUEUED


def test_a_spec_can_be_given_whole(client):
    spec = JobSpec(task="gpt", epochs=2, global_batch=32, max_workers=2)
    assert client.submit(spec).spec == spec
    assert client.submit(spec, name="other").name == "other"


def test_a_spec_may_be_a_mapping_and_what_is_none_is_refused_in_words(client):
    assert client.submit({"task": "digits", "steps": 5}, name="mine").name == "mine"
    with pytest.raises(TypeError, match="task='digits'"):
        client.submit("digits")


@pytest.mark.parametrize(
    ("options", "field"),
    [({"sizes": {1, 2}}, "options.sizes: a set"), ({"a": [1, {"b": b"x"}]}, "options.a.1.b: a bytes")],
)
def test_what_json_has_no_word_for_is_refused_by_its_field(client, options, field):
    with pytest.raises(TypeError, match=f"^{field} cannot be sent"):
        client.submit(task="digits", steps=5, options=options)


def test_an_empty_id_is_refused_before_anything_is_asked(client):
    for ask in (client.job, client.stop, client.worker, client.clear, client.drain, client.admit):
        with pytest.raises(NotFound, match="an empty id or name"):
            ask("")


def test_two_submissions_are_two_jobs_also_of_the_same_spec(client):
    assert client.submit(task="digits", steps=5).id != client.submit(task="digits", steps=5).id


@pytest.fixture
def lossy(served):
    """The address of a proxy that passes requests on, and breaks off before the first answer."""
    lost = []

    class Proxy(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answer = httpx.post(served.url + self.path, content=body, headers=dict(self.headers), trust_env=False)
            if not lost:
                lost.append(answer.status_code)
                self.close_connection = True
                return
            self.send_response(answer.status_code)
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Proxy) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
    assert lost == [201]


def test_a_submission_whose_answer_was_lost_is_one_job(served, lossy):
    with Client(lossy, served.token) as client:
        job = client.submit(task="digits", steps=5)
    assert list(served.desk.cluster.jobs) == [job.id]


def test_a_submission_that_may_have_been_taken_is_asked_for_again(client, served, monkeypatch):
    command, asked = served.desk.command, []

    async def unconfirmed(given):
        asked.append(given.job)
        if len(asked) == 1:
            raise Unconfirmed("it may have been taken")
        await command(given)

    monkeypatch.setattr(served.desk, "command", unconfirmed)
    job = client.submit(task="digits", steps=5)
    assert asked == [job.id, job.id]


def test_a_submission_is_given_up_when_its_patience_is_over(served, monkeypatch):
    async def unconfirmed(given):
        raise Unconfirmed("it may have been taken")

    monkeypatch.setattr(served.desk, "command", unconfirmed)
    with Client(patience=0.1) as client, pytest.raises(Unavailable, match="may have been taken"):
        client.submit(task="digits", steps=5)


def test_errors_tell_what_the_coordinator_said(client, served):
    with pytest.raises(Invalid) as invalid:
        client.submit(task="digits", steps=0, step_timeout=float("nan"))
    assert [each.field for each in invalid.value.errors] == ["step_timeout"]
    with pytest.raises(NotFound, match="j-none"):
        client.job("j-none")
    with pytest.raises(NotFound, match="no worker"):
        client.clear("none")
    job = client.submit(task="digits", steps=5)
    client.stop(job.id)
    with pytest.raises(Conflict) as conflict:
        client.stop(job.id)
    assert conflict.value.problem.phase is JobPhase.STOPPED
    served.desk.ready = "no store"
    with pytest.raises(Unavailable, match="no store"):
        client.submit(task="digits", steps=5)


def test_a_wrong_token_is_unauthorized(served):
    with Client(token="wrong") as client, pytest.raises(Unauthorized):
        client.jobs()


def test_an_id_cannot_lead_to_another_path(client):
    with pytest.raises(NotFound):
        client.job("../workers")


def test_without_a_coordinator_it_is_not_running(places, served):
    served.stop()
    with Client() as client, pytest.raises(NotRunning, match="regroup up"):
        client.jobs()
    places.endpoint.unlink()
    with pytest.raises(NotRunning, match="regroup up"):
        Client()


@contextmanager
def something_else(kind, body, status=200):
    """A client of a server that answers so, whatever it is asked; once."""

    class Else(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Else) as server, Client(f"http://127.0.0.1:{server.server_port}", "x") as client:
        threading.Thread(target=server.handle_request).start()
        yield client


def followed(client):
    return client.events(follow=True)


def records(client):
    return client.records("j-1")


@pytest.mark.parametrize("status", [200, 404, 500])
def test_something_else_at_the_address_is_no_coordinator(status):
    with something_else("text/html", b"<html>hello</html>", status) as client, pytest.raises(NoRegroup):
        client.jobs()


@pytest.mark.parametrize("ask", [followed, records])
def test_a_stream_of_something_else_is_no_coordinators(ask):
    page = something_else("text/html; charset=utf-8", b"<html>hello</html>")
    with page as client, pytest.raises(NoRegroup, match="no coordinator"):
        next(ask(client))


@pytest.mark.parametrize("foreign", [b'{"id": 1}', b'{"fi', b"\xff"], ids=["other", "half", "bytes"])
def test_lines_that_no_coordinator_writes_are_no_coordinators(foreign):
    for ask, kind, body in (
        (followed, "text/event-stream", b"data: " + foreign + b"\n\n"),
        (records, "application/x-ndjson", foreign),
    ):
        with something_else(kind, body) as client, pytest.raises(NoRegroup, match="no coordinator"):
            next(ask(client))


def test_a_coordinator_that_falls_silent_in_its_records_is_not_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr(transport, "SILENCE", 0.2)
    ended = threading.Event()

    class Frozen(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "application/x-ndjson")
            self.end_headers()
            self.wfile.write(b'{"file": "a", "text": "b"}\n')
            ended.wait(20)

        def log_message(self, *_):
            pass

    with (
        HTTPServer(("127.0.0.1", 0), Frozen) as server,
        Client(f"http://127.0.0.1:{server.server_port}", "x") as client,
    ):
        threading.Thread(target=server.handle_request).start()
        records = client.records("j-1")
        assert next(records).file == "a"
        with pytest.raises(Unreachable):
            next(records)
        ended.set()


def test_waiting_ends_with_the_job_and_tells_every_change(client, served):
    job = client.submit(task="digits", steps=5)
    seen = []

    def change(view):
        seen.append(view.phase)
        if len(seen) == 1:
            served.do(served.desk.command(StopJob(job.id)))

    assert client.wait(job.id, timeout=10, on_change=change, interval=0.01).phase is JobPhase.STOPPED
    assert seen == [JobPhase.QUEUED, JobPhase.STOPPED]


def test_waiting_gives_up_after_its_timeout_and_the_job_goes_on(client):
    job = client.submit(task="digits", steps=5)
    with pytest.raises(WaitedTooLong, match="queued"):
        client.wait(job.id, timeout=0.05, interval=0.01)
    assert client.job(job.id).phase is JobPhase.QUEUED


def test_points_and_events_are_read_over_pages(client, served):
    job = client.submit(task="digits", steps=5)
    points = [StepPoint(step, 0.5, 1.0, 1, 0.1, 0.1) for step in range(2500)]
    served.do(served.desk.store.append_points(1, job.id, points))
    assert [point.step for point in client.points(job.id)] == list(range(2500))
    assert [point.step for point in client.points(job.id, after=2497)] == [2498, 2499]
    others = [client.submit(task="digits", steps=5).id for _ in range(3)]
    events = list(client.events())
    assert [event.job for event in events] == [job.id, *others]
    assert [event.job for event in client.events(after=events[1].id)] == others[1:]
    assert [event.job for event in client.events(job.id)] == [job.id]


def test_a_followed_job_tells_its_events_until_its_end(client, served):
    job = client.submit(task="digits", steps=5)
    kinds = []
    for event in client.events(job.id, follow=True):
        kinds.append(event.kind)
        if event.kind == "submitted":
            served.do(served.desk.command(StopJob(job.id)))
    assert kinds == ["submitted", "stopped"]


def test_a_followed_timeline_goes_on_after_a_restart_without_loss_or_repetition(client, served):
    first = client.submit(task="digits", steps=5).id
    following = client.events(follow=True)
    assert next(following).job == first
    served.stop()
    second = []

    def go_on() -> None:
        served.start()
        with Client() as other:
            second.append(other.submit(task="digits", steps=5).id)

    later = threading.Timer(0.7, go_on)  # by then a try to connect was refused
    later.start()
    event = next(following)
    later.join()
    assert [event.job] == second
    following.close()


def test_a_coordinator_that_is_away_is_told_once_and_its_return_too(served):
    told = []
    with Client(on_away=told.append) as client:
        job = client.submit(task="digits", steps=5)
        following = client.events(job.id, follow=True)
        assert next(following).kind == "submitted"
        served.stop()

        def go_on() -> None:
            served.start()
            served.do(served.desk.command(StopJob(job.id)))

        later = threading.Timer(1.2, go_on)  # by then a second try was refused
        later.start()
        assert next(following).kind == "stopped"
        later.join()
        following.close()
    assert told == [True, False]


def test_whoever_waited_for_a_coordinator_that_went_away_is_not_told_that_the_job_is_still_there(served):
    with Client() as client:
        job = client.submit(task="digits", steps=5)
        with pytest.raises(
            WaitedTooLong, match=r"was queued when the coordinator last answered, and nobody has answered"
        ):
            client.wait(job.id, timeout=0.3, on_change=lambda _: served.stop(), interval=0.1)


def test_a_timeline_that_was_never_reached_is_not_waited_for(places, served):
    with Client() as client:
        served.stop()
        with pytest.raises(NotRunning):
            next(client.events(follow=True))


def test_records_come_in_pieces(client, served):
    job = client.submit(task="digits", steps=5)
    served.desk.pieces = [("a", "x\u2028y\n"), ("b", "")]
    assert [(piece.file, piece.text) for piece in client.records(job.id)] == served.desk.pieces
    with pytest.raises(NotFound):
        list(client.records("j-none"))


def test_records_that_break_off_are_an_error_and_not_an_end(client, served, caplog):
    job = client.submit(task="digits", steps=5)
    served.desk.pieces = [("a", "x\n"), ("b", "y\n")]
    served.desk.breaks = "the agent of b is gone"
    records = client.records(job.id)
    assert [next(records).file, next(records).file] == ["a", "b"]
    with pytest.raises(Unreachable, match=f"records of job {job.id} broke off before their end"):
        next(records)
    assert "the agent of b is gone" in caplog.messages
    assert client.cluster().workers == 0  # all else goes on


def test_workers_and_the_cluster_are_read(client, served):
    served.do(served.desk.register("w1"))
    assert [worker.name for worker in client.workers()] == ["w1"]
    assert client.worker("w1").healthy
    assert client.clear("w1").errors == 0
    assert client.drain("w1").drained
    assert not client.admit("w1").drained
    assert client.cluster().workers == 1


def test_a_newer_coordinators_fields_do_not_confuse_an_older_client(client, served):
    job = client.submit(task="digits", steps=5)
    served.desk.cluster = replace(served.desk.cluster, jobs={job.id: replace(served.desk.cluster.jobs[job.id], step=3)})
    shown = client.job(job.id)
    adapter = TypeAdapter(type(shown))
    newer = adapter.dump_python(shown, mode="json")
    newer["spec"]["colour"] = "red"
    newer["weather"] = "fine"
    assert understood(adapter, json.dumps(newer).encode()) == shown


def test_server_sent_events_are_taken_apart():
    lines = [
        "retry: 10",
        "",
        ": comment",
        "",
        "id: 1",
        "event: end",
        "data: a",
        "data:b",
        "",
        "data: c",
        "",
        "data: cut",
    ]
    assert list(server_sent(iter(lines))) == [("end", "a\nb"), ("message", "c")]
