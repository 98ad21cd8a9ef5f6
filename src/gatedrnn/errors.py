"""Every exception of the package, with the exit code that a command ends with.

All of them are `Error`s, so that one clause catches what a user of the library can mend; those that Python has a class
for are that class too. The message names the thing, the rule, what was found and what to do.
"""

import signal
from typing import ClassVar

USAGE, FAILURE, SIGNALLED = 2, 1, 128


class Error(Exception):
    """The base of all errors of this package."""

    code: ClassVar[int] = FAILURE

    @property
    def exit_code(self) -> int:
        """Of the command that it ends: 2 where other arguments or data would mend it, else 1."""
        return self.code


class UsageError(Error, ValueError):
    """The arguments of a command do not go together."""

    code = USAGE


class DataError(Error):
    """The data, or a setting about them, cannot be used."""

    code = USAGE


class NoMatch(Error, ValueError):
    """No width brings a cell's parameters near enough to the baseline's."""

    code = USAGE


class TooLarge(Error, ValueError):
    """A setting asks for more memory than there is."""

    code = USAGE


class FolderTaken(Error):
    """The folder holds another run or another study."""

    code = USAGE


class BackendUnavailable(Error, RuntimeError):
    """The named backend cannot run here."""


class Damaged(Error):
    """A file is not as it was written."""


class CheckpointDamaged(Damaged):
    """No checkpoint is whole."""


class InUse(Error):
    """Another process writes into the folder."""


class NonFiniteLoss(Error):
    """The loss, or the norm of its gradient, became NaN or infinite."""


class ExportWrong(Error, RuntimeError):
    """The exported graph does not give the model's numbers."""


class Interrupted(Error):
    """A run was asked to stop; a checkpoint was taken first."""

    signal_number: int | None = None
    """Of the signal that asked; None if it was the caller."""

    @property
    def exit_code(self) -> int:
        """As a shell reports a signal: 130 after Ctrl-C."""
        return SIGNALLED + (self.signal_number or signal.SIGINT)
