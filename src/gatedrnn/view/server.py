"""A page on loopback, until Ctrl-C."""

import logging
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LOG = logging.getLogger("gatedrnn")
HOST = "127.0.0.1"
_IDLE = 10
"""Seconds after which a connection that asks for nothing is closed: browsers open some in advance."""


def serve(page: str, port: int) -> ThreadingHTTPServer:
    """A server that answers every request for `/` with the page; call `serve_forever`, and `server_close` at the end.

    Only this machine reaches it, and only by its own name: a page of another site, whose name was made to lead here,
    gets nothing.

    Args:
        page: HTML.
        port: 0 for one that is free; `server_port` has it.

    Raises:
        OSError: the port is taken.
    """
    content = page.encode()

    class Handler(BaseHTTPRequestHandler):
        timeout = _IDLE

        def do_GET(self) -> None:
            status = HTTPStatus.OK if self.path == "/" else HTTPStatus.NOT_FOUND
            if self.headers["Host"] not in (f"{name}:{server.server_port}" for name in (HOST, "localhost")):
                status = HTTPStatus.FORBIDDEN
            body = content if status is HTTPStatus.OK else b""
            self.send_response(status)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass  # the user looks at the page, not at its requests

    server = _Server((HOST, port), Handler)
    return server


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that reloads or leaves drops what it has asked for, which is no error; another one gets a line."""
        error = sys.exception()
        if not isinstance(error, (ConnectionError, TimeoutError)):
            LOG.warning("a request was not answered: %s: %s", type(error).__name__, error)
