"""The command line, called in this process."""

import pytest

from gatedrnn.cli.app import main


def outcome(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Exit code, and what was said on the error stream."""
    try:
        main(arguments)
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    return code, capsys.readouterr().err


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command that succeeds prints."""
    try:
        main(arguments)
    except SystemExit as stop:
        assert not stop.code
    return capsys.readouterr().out
