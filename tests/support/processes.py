"""Processes that tests start."""

import signal


def heeds_signals() -> None:
    """For `preexec_fn`: what nohup or a shell starts in the background ignores signals, and so would its children."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
