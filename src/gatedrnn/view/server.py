"""A page on loopback, until Ctrl-C."""

from http.server import BaseHTTPRequestHandler, HTTPServer

HOST = "127.0.0.1"


def serve(page: str, port: int) -> HTTPServer:
    """A server that answers every request for `/` with the page; call `serve_forever`, and `server_close` at the end.

    Args:
        page: HTML.
        port: 0 for one that is free; `server_port` has it.

    Raises:
        OSError: the port is taken.
    """
    content = page.encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path == "/"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(content) if found else 0))
            self.end_headers()
            if found:
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass  # the user looks at the page, not at its requests

    return HTTPServer((HOST, port), Handler)
