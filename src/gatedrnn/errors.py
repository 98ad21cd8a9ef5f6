"""Every exception of the package, with the exit code that a command ends with.

All of them are `Error`s, so that one clause catches what a user of the library can mend; those that Python has a class
for are that class too. The message names the thing, the rule, what was found and what to do.
"""

import re
import shlex
import signal
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

USAGE, FAILURE, SIGNALLED = 2, 1, 128
REASON, SHOWN, LISTED = 400, 80, 60
"""Characters at most of what another library's error says, and of a wrong value; names at most of what there is."""


class Error(Exception):
    """The base of all errors of this package."""

    exit_code: int = FAILURE
    """The exit code of the command that it ends: 2 where other arguments or data would mend it, else 1."""
    typed: str | None = None
    """The message with settings as flags, as the command line shows it, where the message names Python's parameters."""


def reason(error: BaseException) -> str:
    """The message of another library's error, in one line.

    Example:
        >>> reason(ValueError("wrong field:\\n    cell 'gru2' is unknown\\n"))
        "wrong field: cell 'gru2' is unknown"
    """
    return " ".join(str(error).split())[:REASON] or type(error).__name__


def is_panic(error: BaseException) -> bool:
    """Whether a library written in Rust gave up in the middle of a call: pyo3's class for it is no `Exception`."""
    return type(error).__name__ == "PanicException"


def in_one_line(error: Exception) -> str:
    """Return an error's message in one line; pydantic's with the flags of settings, without its heading and address.

    Example:
        >>> in_one_line(FileNotFoundError(2, "No such file or directory", "a.csv"))
        'a.csv: no such file or directory'
    """
    if isinstance(error, Error):
        return " ".join((error.typed or str(error)).split())
    cause: Any = error.__cause__ if hasattr(error.__cause__, "errors") else error
    if not hasattr(cause, "errors"):
        if isinstance(error, OSError) and error.filename is not None:
            said = error.strerror or str(error)
            return f"{error.filename}: {said[:1].lower()}{said[1:]}"
        return " ".join(str(error).split())
    parts = []
    for fault in cause.errors():
        message, got = fault["msg"].removeprefix("Value error, "), repr(fault["input"])
        flag = _flag(fault["loc"])
        parts.append(f"{flag}: {message} (got {got if len(got) <= SHOWN else got[:SHOWN] + '…'})" if flag else message)
    return " ".join("; ".join(parts).split())


def _flag(place: Sequence[int | str]) -> str:
    """The flag that a field of nested settings is typed as: they are flat on the command line."""
    names = [str(part) for part in place if not isinstance(part, int)]
    return f"--{names[-1].replace('_', '-')}" if names else ""


_FLAG = re.compile(
    r"gatedrnn \w+ --[a-z-]+|--(?P<no>no-)?(?P<name>[a-z][a-z0-9]*(?:-[a-z0-9]+)*)(?:=(?P<value>true|false))?"
)
"""A flag in a message; those of a whole command stay as they are."""
_IN_PYTHON = {"resume": "resume()", "finish": "finish()", "trust_code": "gatedrnn.trust.trusting(trust_code=True)"}
"""Flags that are no parameters in Python."""


def in_python(error: Error, names: Mapping[str, str] | None = None) -> Error:
    """An error whose message names the parameters of Python in the place of flags; the flags are kept in `typed`.

    Args:
        names: parameters that are called otherwise than the flags.

    Example:
        >>> str(in_python(Error("name it with --time-column; --no-refit leaves it out")))
        'name it with time_column; refit=False leaves it out'
    """

    def parameter(flag: re.Match[str]) -> str:
        if flag["name"] is None:
            return flag[0]
        name = flag["name"].replace("-", "_")
        value = "=False" if flag["no"] else f"={flag['value'].title()}" if flag["value"] else ""
        return _IN_PYTHON.get(name) or f"{(names or {}).get(name, name)}{value}"

    if error.typed is None:
        error.typed = str(error)
        error.args = (_FLAG.sub(parameter, error.typed), *error.args[1:])
    return error


_SYNONYMS = {
    "lr": "learning_rate", "h": "horizon", "fh": "horizon", "freq": "frequency", "units": "hidden_size",
    "hidden_dim": "hidden_size", "max_epochs": "epochs", "num_epochs": "epochs", "n_epochs": "epochs",
    "max_steps": "total_steps", "num_layers": "layers", "n_layers": "layers", "random_state": "seed",
}  # fmt: skip
"""Settings by the names that other libraries have for them."""


def nearest(name: str, names: Iterable[str], otherwise: str = "") -> str:
    """Return a hint for a name that does not exist: the nearest that does, or else another sentence.

    Example:
        >>> nearest("mingur", ["mingru", "lstm"]), nearest("lr", ["learning_rate", "layers"])
        ("did you mean 'mingru'?", "did you mean 'learning_rate'?")
    """
    by_letters = {known.lower().replace("-", "_"): known for known in names}
    asked = name.lower().replace("-", "_")
    synonym = _SYNONYMS.get(asked, asked)
    near = [synonym] if synonym in by_letters else get_close_matches(asked, by_letters, n=1)
    return f"did you mean {by_letters[near[0]]!r}?" if near else otherwise


def unknown(what: str, name: str, names: Iterable[str]) -> str:
    """Return a sentence for a name that does not exist, with the nearest that does."""
    names = list(names)
    are = "there is" if len(names) == 1 else "there are"
    listed = f"{are} {', '.join(names)}" if len(names) <= LISTED else f"there are {len(names)} others"
    return f"there is no {what} {name!r}; " + nearest(name, names, listed)


class UsageError(Error, ValueError):
    """The arguments of a command do not go together."""

    exit_code = USAGE


class DataError(Error):
    """The data, or a setting about them, cannot be used."""

    exit_code = USAGE


class Question(DataError):
    """A table may be read in several ways; its message names the flags that say which.

    Args:
        asked: what the table does not tell, with the file.
        answers: settings that tell it, by name, the likeliest first; each has one text or several, or none where it is
            a flag without a value.
        rows: the table as far as it is read, a line for its names and one for each of its first rows.
    Example:
        >>> str(Question("a.csv: row 1: 1,234 may be 1234 or 1.234", [{"decimal": ["."]}, {"decimal": [","]}]))
        'a.csv: row 1: 1,234 may be 1234 or 1.234; give --decimal . or --decimal ,'
    """

    def __init__(
        self, asked: str, answers: Sequence[Mapping[str, Sequence[str]]] = (), rows: Sequence[str] = ()
    ) -> None:
        mark = "" if asked.endswith("?") else ";"
        super().__init__(f"{asked}{mark} give {_listed(answers)}" if answers else asked)
        self.asked, self.answers, self.rows = asked, list(answers), rows


def _listed(answers: Sequence[Mapping[str, Sequence[str]]]) -> str:
    """Answers as flags, a flag of several values once."""
    values: dict[tuple[str, ...], list[str]] = {}
    for answer in answers:
        values.setdefault(tuple(answer), []).append(typed(answer))
    listed = list[str]()
    for names, given in values.items():
        if len(names) == 1 and len(given) > _MAX_REPEATED:
            flag = f"--{names[0].replace('_', '-')} "
            listed.append(
                f"{', '.join([given[0], *(one.removeprefix(flag) for one in given[1:-1])])} or "
                f"{given[-1].removeprefix(flag)}"
            )
        else:
            listed += given
    return " or ".join(listed)


_MAX_REPEATED = 2
"""Values of one flag, at most, for each of which a message has the flag."""


def typed(answer: Mapping[str, Sequence[str]]) -> str:
    """Settings as a shell has them.

    Example:
        >>> typed({"target": ["Load [MW]"], "date_order": ["day-month-year"]})
        "--target 'Load [MW]' --date-order day-month-year"
    """
    flags = list[str]()
    for name, value in answer.items():
        given = "=false" if list(value) == ["false"] else f" {shlex.join(value)}"
        flags.append(f"--{name.replace('_', '-')}{given}".rstrip())
    return " ".join(flags)


class UntrustedCode(Error):
    """Something that was opened names a Python file, and the user has not said that it may be run."""

    exit_code = USAGE


class KernelRefused(Error):
    """A saved kernel, or its folder, could have been written by another user, so it is not loaded."""


class MissingExtra(Error, ModuleNotFoundError):
    """A package of an extra is not installed; the message has the command that installs it."""

    exit_code = USAGE


class NoMatch(Error, ValueError):
    """No width brings a cell's parameters near enough to the baseline's."""

    exit_code = USAGE


class CannotBeTraced(Error, ValueError):
    """A cell's equations do something that no generated kernel does; the message says what, and in which line."""

    exit_code = USAGE


class ContenderFails(Error, RuntimeError):
    """A contender of a user's own file fails where it is made or called, or returns another shape."""

    exit_code = USAGE


class WrongKernel(Error, RuntimeError):
    """A kernel that was just compiled does not compute its equations on this machine; `backend="reference"` does."""


class TooLarge(Error, ValueError):
    """A setting asks for more memory than there is."""

    exit_code = USAGE


class FolderTaken(Error):
    """The folder holds another run or another study."""

    exit_code = USAGE


class BackendUnavailable(Error, RuntimeError):
    """The named backend cannot run here.

    Example:
        >>> gatedrnn.HGRN(3, 8).backend = "torch"
        Traceback (most recent call last):
        gatedrnn.errors.BackendUnavailable: backend 'torch' cannot run this HGRN; choose one of auto, reference, native
    """


class Damaged(Error):
    """A file is not as it was written."""


class CheckpointDamaged(Damaged):
    """No checkpoint is whole."""


class InUse(Error):
    """Another process writes into the folder."""


class NonFiniteLoss(Error):
    """The loss, or the norm of its gradient, became NaN or infinite."""


class NoCluster(Error):
    """The engine that `--on` names cannot be reached."""


class WorkerDiffers(Error):
    """A worker has another version of what must agree, or does not see the driver's folder."""


class WorkerLost(Error):
    """The process that a run was handed to is no more."""


class OutOfMemory(Error, MemoryError):
    """A run needs more memory than its machine has."""


class ExportWrong(Error, RuntimeError):
    """The exported graph does not give the model's numbers."""


class Interrupted(Error):
    """A run was asked to stop; a checkpoint was taken first."""

    exit_code = SIGNALLED + signal.SIGINT
    signal_number: int | None = None
    """The number of the signal that asked; None if it was the caller."""

    def __init__(self, message: str, signal_number: int | None = None) -> None:
        super().__init__(message)
        self.signal_number = signal_number
        if signal_number is not None:  # as a shell reports a signal
            self.exit_code = SIGNALLED + signal_number
