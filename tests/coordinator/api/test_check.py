"""A health check asks the service, not the port, and tells in one line what is wrong."""

import socket
import threading
from http.server import HTTPServer, SimpleHTTPRequestHandler
from urllib.parse import urlsplit

import pytest

from regroup.coordinator import check
from regroup.coordinator.check import trouble
from regroup.wire.places import Endpoint, Places


def test_who_leads_and_has_its_store_is_well(served):
    assert trouble(served.url) is None


def test_who_leads_without_its_store_is_not(served):
    served.desk.ready = "the store does not answer"
    assert trouble(served.url) == "the store does not answer"


def test_where_nobody_listens_it_says_so():
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    assert (trouble(url) or "").startswith(f"nobody answers at {url} (")


def test_another_service_on_the_port_is_not_taken_for_a_coordinator():
    with HTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert trouble(url) == f"something else answers at {url}"
        server.shutdown()


def test_the_one_is_asked_that_these_settings_would_start(served, monkeypatch, capsys):
    place = urlsplit(served.url)
    monkeypatch.setenv("REGROUP_HOST", "0.0.0.0")
    monkeypatch.setenv("REGROUP_PORT", f" {place.port} ")
    assert (check.check(), capsys.readouterr().out) == (0, "well\n")
    served.desk.ready = "the store does not answer"
    assert (check.check(), capsys.readouterr().out) == (1, "the store does not answer\n")


@pytest.mark.parametrize("port", ["here", "-1", "65536"])
def test_a_port_that_is_none_is_told(port, monkeypatch):
    monkeypatch.setenv("REGROUP_PORT", port)
    with pytest.raises(SystemExit, match=rf"^regroup-coordinator: REGROUP_PORT: {port} is no port$"):
        check.check()


def test_of_a_free_port_the_data_directory_tells_which(served, monkeypatch, tmp_path):
    monkeypatch.setenv("REGROUP_PORT", "0")
    monkeypatch.setenv("REGROUP_DATA_DIR", str(tmp_path))
    with pytest.raises(SystemExit, match=r"^regroup-coordinator: none runs here$"):
        check.check()
    Places(tmp_path).endpoint.write_text(Endpoint(served.url, 1).encode())
    assert check.check() == 0
