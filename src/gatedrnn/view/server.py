"""A page on loopback, until Ctrl-C."""

from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOST = "127.0.0.1"
IDLE = 10
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
        timeout = IDLE

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

    server = ThreadingHTTPServer((HOST, port), Handler)
    return server
