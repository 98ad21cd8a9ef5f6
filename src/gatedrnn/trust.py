"""Words that stand for a class of a Python file, and which files may be run to know it.

Running a file can do anything. So only those are run that the user has named: not one that stands in a folder or a file
that is opened, whoever wrote that.
"""

import importlib.util
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from gatedrnn.errors import UntrustedCode, reason


class Trust(NamedTuple):
    """The Python files that may be run."""

    files: frozenset[Path] = frozenset()
    """Absolute, links resolved."""
    all_files: bool = False


_trust = Trust()  # of this process: every thread of it


def is_in_file(word: str) -> bool:
    """Whether a word names a class of a Python file, as in models/own.py:Own."""
    return word.rpartition(":")[0].endswith(".py")


def file_of(word: str) -> Path:
    """The file of such a word."""
    return Path(word.rpartition(":")[0])


def canonical_name(word: str) -> str:
    """The name that a word has among cells and backbones: that of the class, where it is in a file. Runs nothing."""
    return word.rpartition(":")[2] if is_in_file(word) else word


def named_on(tokens: Iterable[str]) -> list[Path]:
    """The files of all such words on a command line."""
    parts = [part for token in tokens for part in token.rpartition("=")[2].split(",")]
    return [file_of(part.strip()) for part in parts if is_in_file(part.strip())]


@contextmanager
def trusting(files: Iterable[Path] = (), *, trust_code: bool = False) -> Iterator[None]:
    """Allow these Python files to be run, within this context, where something names them as cells.

    Args:
        files: those that the user has named.
        trust_code: every other one too.

    Example:
        >>> from gatedrnn.trust import trusting
        >>> from gatedrnn.training.settings import canonical
        >>> with trusting(trust_code=True):
        ...     canonical("mingru")
        'mingru'
    """
    global _trust
    before = _trust
    _trust = Trust(before.files | {file.resolve() for file in files}, before.all_files or trust_code)
    try:
        yield
    finally:
        _trust = before


def trust() -> Trust:
    """The Python files that may be run here; a worker is sent them."""
    return _trust


def check_trusted(word: str) -> None:
    """Check that the file of a word may be run.

    Raises:
        UntrustedCode: nobody who may has named it.
    """
    if not _trust.all_files and file_of(word).resolve() not in _trust.files:
        raise UntrustedCode(
            f"{word}: this Python file would be run, and the command line does not name it; if you trust what is in "
            "it, give the same command with --trust-code"
        )


def class_of_file(word: str) -> object:
    """Run the file of a word, as in models/own.py:Own, and return what has the name there.

    Raises:
        UntrustedCode: nobody who may has named the file.
        ValueError: there is no such file or class, or running the file fails.
    """
    check_trusted(word)
    name, file = canonical_name(word), file_of(word).resolve()
    if not file.is_file():
        raise ValueError(f"{word}: there is no file {file_of(word)}")
    spec = importlib.util.spec_from_file_location(f"_of_user_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # pickle and dataclasses look a class's module up by its name.
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ValueError(f"{word}: running the file fails: {type(error).__name__}: {reason(error)}") from error
    found: object = getattr(module, name, None)
    if not callable(found):
        raise ValueError(f"{word}: the file has no class {name}")
    return found
