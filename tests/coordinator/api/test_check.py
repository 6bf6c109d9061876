"""A health check asks the service, not the port, and tells in one line what is wrong."""

import socket
import threading
from http.server import HTTPServer, SimpleHTTPRequestHandler

from regroup.coordinator.check import trouble


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
