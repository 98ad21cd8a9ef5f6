"""gatedrnn view."""

import webbrowser
from pathlib import Path

from gatedrnn.errors import DataError, UsageError
from gatedrnn.records import write_whole
from gatedrnn.terminal import Console

_MAX_PORT = 65_535
AT_ONCE = 2
"""Models side by side."""


def view(*runs: Path, untrained: bool = False, html: Path | None = None, port: int = 0, browser: bool = True) -> None:
    """Open a page that shows what the gates of a trained model do, step by step, on any text that is typed.

    The page runs the model in the browser, by the graph of one step, and asks for nothing else.

    Args:
        runs: Folder of a run of `gatedrnn train`, or of a model that one wrote; two for side by side.
        untrained: Show the run's model beside itself before its training: the same seed, the same initialisation.
        html: Write the page into this file, which works without a server and without a network, instead of opening it.
        port: Port of the server on this machine; a free one if not given.
        browser: Open it; --browser=false only prints the address.
    """
    if not 0 <= port <= _MAX_PORT:
        raise UsageError(f"--port {port}: ports are numbers from 1 to {_MAX_PORT:,}; leave it out for a free one")
    from gatedrnn.view.page import page_of
    from gatedrnn.view.server import HOST, serve

    if not 1 <= len(runs) <= AT_ONCE:
        raise UsageError(f"view takes the folder of one model, or of {AT_ONCE} side by side; got {len(runs)}")
    if untrained and len(runs) > 1:
        raise UsageError(f"--untrained is of the folder of one run, which it shows twice; got {len(runs)}")
    console, page = Console(), page_of(runs, untrained)
    if html is not None:
        write_whole(html, page)
        console.print(f"page: {html} ({len(page) / 1e6:.1f} MB)", soft_wrap=True, highlight=False)
        return
    try:
        server = serve(page, port)
    except OSError as error:
        raise DataError(f"--port {port}: {error.strerror}; leave it out for a free one") from error
    address = f"http://{HOST}:{server.server_port}/"
    console.print(f"{address}  Ctrl-C ends it", soft_wrap=True, highlight=False)
    if browser:
        webbrowser.open(address)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
