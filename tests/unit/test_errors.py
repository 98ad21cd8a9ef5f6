"""Every exception of the package is caught by one clause, and knows the exit code of a command."""

import signal
from unittest.mock import Mock

from commands import outcome

from gatedrnn import errors

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.Error)]


def test_a_command_ends_with_the_code_of_its_error_or_signal_and_one_line(monkeypatch, capsys):
    for kind in KINDS:
        fails = Mock(side_effect=kind("the thing: the rule\nand what to do"))
        monkeypatch.setattr("gatedrnn.inspect.printing.print_layers", fails)
        more = "; the same command begins again" if kind is errors.Interrupted else ""
        said = f"gatedrnn: the thing: the rule and what to do{more}\n"
        assert outcome(capsys, "describe", "gru") == (kind.exit_code, said)
    assert {kind.exit_code for kind in KINDS} == {1, 2, 130}
    assert errors.Interrupted("kept", signal.SIGTERM).exit_code == 143
