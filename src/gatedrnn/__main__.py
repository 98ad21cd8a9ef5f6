"""The process of a command: `gatedrnn`, or `python -m gatedrnn`."""

import atexit
import gc
import os
import sys

_codes: list[object] = []
"""The code with which the command ends the process, once it has ended."""


def _end() -> None:
    """End the process without freeing what torch made, object by object, which takes a second."""
    if not _codes:
        return  # of another program, which has imported this module
    code = _codes[-1]
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # nobody reads it any more
            code = code or 1
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


atexit.register(_end)  # before what the imports below register: the first is called last, when all threads have ended

from gatedrnn.cli.app import main  # noqa: E402
from gatedrnn.current_folder import ignore_matplotlib_file  # noqa: E402

_COLLECTED = 50_000
"""New objects from which the garbage collector looks through them: imports of torch and transformers make a million,
none of them garbage, and the usual 700 cost a second."""


def run() -> None:
    """Run the command line, and end the process."""
    gc.set_threshold(_COLLECTED)
    ignore_matplotlib_file()
    os.environ["PYTHONSAFEPATH"] = "1"  # no process that a library starts imports from the current folder
    code: object = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    _codes.append(code)
    sys.exit(0)


if __name__ == "__main__":
    run()
