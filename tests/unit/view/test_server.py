"""The page is there for this machine's browsers, whatever others do with their connections."""

import socket
import threading
from http.client import HTTPConnection

import pytest
from commands import outcome

from gatedrnn.view import server
from gatedrnn.view.server import HOST, serve


@pytest.fixture
def running(monkeypatch):
    monkeypatch.setattr(server, "IDLE", 0.2)
    found = serve("<p>page</p>", 0)
    threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield found
    found.shutdown()
    found.server_close()


def answer(running, path="/", host=None):
    connection = HTTPConnection(HOST, running.server_port, timeout=5)
    connection.request("GET", path, headers={"Host": host} if host else {})
    found = connection.getresponse()
    return found.status, found.read().decode()


def test_connections_that_ask_for_nothing_block_no_other_and_are_closed(running):
    idle = [socket.create_connection((HOST, running.server_port)) for _ in range(5)]
    assert answer(running) == (200, "<p>page</p>") and answer(running, "/else") == (404, "")
    for connection in idle:
        connection.settimeout(5)
        assert connection.recv(1) == b""
        connection.close()


def test_only_names_of_this_machine_are_answered(running):
    assert answer(running, host=f"localhost:{running.server_port}")[0] == 200
    for host in ("elsewhere.example", f"elsewhere.example:{running.server_port}", "localhost:1"):
        assert answer(running, host=host) == (403, "")


@pytest.mark.parametrize("port", [-1, 65_536, 99_999])
def test_a_port_that_there_is_none_of_gets_a_sentence(port, tmp_path, capsys):
    code, said = outcome(capsys, "view", tmp_path, "--port", port)
    assert code == 2 and f"--port {port}: ports are numbers from 1 to 65,535" in said
