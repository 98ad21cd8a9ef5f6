"""The command line, called in this process; and what holds for those that tests start."""

import signal

import pytest

from gatedrnn.cli.app import main

ALONE = ("--baselines", "none")
"""The flags that leave plain methods out, which have tests of their own, `study/test_standing.py`."""


def exit_code(*arguments: object) -> int:
    if arguments and arguments[0] in ("train", "forecast") and not {"--help", ALONE[0]} & {*arguments}:
        arguments += ALONE
    with pytest.raises(SystemExit) as stop:
        main([str(part) for part in arguments])
    return int(stop.value.code or 0)


def call(*arguments: object) -> None:
    """A command that succeeds."""
    assert exit_code(*arguments) == 0


def outcome(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """Exit code, and what was said on the error stream."""
    capsys.readouterr()
    return exit_code(*arguments), capsys.readouterr().err


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The output of a command that succeeds."""
    capsys.readouterr()
    call(*arguments)
    return capsys.readouterr().out


def heeds_signals() -> None:
    """Make a child heed signals, as `preexec_fn`: what nohup or a shell starts in the background ignores them, and so
    would its children.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
