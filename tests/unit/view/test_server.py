"""The page is there for this machine's browsers, whatever others do with their connections."""

import socket
import struct
import threading
import time
from http.client import HTTPConnection

import pytest
from commands import outcome

from gatedrnn.view import server
from gatedrnn.view.server import HOST, serve

PAGE = "<p>page</p>" + " " * 5_000_000
"""A page as long as a real one, so that the kernel does not take all of it at once."""


@pytest.fixture
def running(monkeypatch):
    monkeypatch.setattr(server, "_IDLE", 0.2)
    found = serve(PAGE, 0)
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
    assert answer(running) == (200, PAGE) and answer(running, "/else") == (404, "")
    for connection in idle:
        connection.settimeout(5)
        assert connection.recv(1) == b""
        connection.close()


def test_only_names_of_this_machine_are_answered(running):
    assert answer(running, host=f"localhost:{running.server_port}")[0] == 200
    for host in ("elsewhere.example", f"elsewhere.example:{running.server_port}", "localhost:1"):
        assert answer(running, host=host) == (403, "")


def aborted(running, read):
    """A request whose connection is reset after some bytes of the answer, as by a reload."""
    connection = socket.create_connection((HOST, running.server_port))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.sendall(f"GET / HTTP/1.1\r\nHost: {HOST}:{running.server_port}\r\n\r\n".encode())
    connection.recv(read) if read else None
    connection.close()


def test_a_page_that_is_reloaded_while_it_loads_leaves_nothing_in_the_terminal(running, capfd, caplog, monkeypatch):
    ended, end = [], running.shutdown_request
    monkeypatch.setattr(running, "shutdown_request", lambda request: (ended.append(1), end(request)))
    for read in (0, 1, 1000):
        aborted(running, read)
    while len(ended) < 3:
        time.sleep(0.01)
    assert answer(running)[0] == 200
    assert capfd.readouterr() == ("", "") and caplog.messages == []


def test_another_fault_of_a_request_is_one_line(running, capfd, caplog, monkeypatch):
    def fails(*_):
        raise ValueError("no such thing")

    monkeypatch.setattr(running.RequestHandlerClass, "do_GET", fails)
    with pytest.raises(ConnectionError):
        answer(running)
    assert caplog.messages == ["a request was not answered: ValueError: no such thing"]
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("port", [-1, 65_536, 99_999])
def test_a_port_that_there_is_none_of_gets_a_sentence(port, tmp_path, capsys):
    code, said = outcome(capsys, "view", tmp_path, "--port", port)
    assert code == 2 and f"--port {port}: ports are numbers from 1 to 65,535" in said
