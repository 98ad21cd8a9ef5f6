"""The software and processor that measured results, naming neither machine nor user, and files that are written as a
whole.
"""

import datetime
import errno
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any, NotRequired, TypeAlias

from typing_extensions import TypedDict  # pydantic takes that of `typing` from Python 3.12 on only

from gatedrnn.errors import SHOWN, Damaged, reason
from gatedrnn.machine import processor

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""A value that a JSON file holds."""
Setting: TypeAlias = "Json | Path | Sequence[str] | Sequence[int] | Sequence[float]"
"""A value of a flag, as a caller of Python gives it."""
_OF_SPACE = {getattr(errno, name) for name in ("ENOSPC", "EFBIG", "EDQUOT") if hasattr(errno, name)}
"""The numbers of errors that say that a disk, or a quota of it, is full."""
_FREE = "MiB are free there"
PACKAGES = ("gatedrnn", "torch", "numpy", "numba", "transformers", "accelerate", "tokenizers", "scikit-learn")


class Machine(TypedDict):
    """Commit, versions, system and processor."""

    commit: NotRequired[str | None]
    """The commit of the package's own checkout, with a plus where its sources differ from it; None where it was
    installed from a wheel. Not in a file from before it was recorded."""
    python: str
    system: str
    processor: str
    cores: int | None
    versions: dict[str, str]
    """The versions by package; those that are not installed are left out."""


class Environment(TypedDict):
    """The date and the machine of a measurement."""

    date: str
    environment: Machine


def environment() -> Environment:
    """The environment of this process."""
    return {
        "date": datetime.date.today().isoformat(),
        "environment": {
            "commit": commit(),
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
            "processor": processor(),
            "cores": os.cpu_count(),
            "versions": {package: version for package in PACKAGES if (version := _version(package)) is not None},
        },
    }


@cache
def commit() -> str | None:
    """The commit of the checkout that this package is imported from, with a plus where its sources differ from it; None
    where it was installed from a wheel, or git does not say. As it was when this process asked first: a study asks when
    it begins.
    """
    source = Path(__file__).resolve().parents[1]
    if source.name != "src" or not (source.parent / ".git").exists():  # another project's, perhaps, around a wheel
        return None
    asked = ["git", "--no-optional-locks", "status", "--porcelain=v2", "--branch", "--untracked-files", "--", "src"]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # hooks set some
    try:
        said = subprocess.run(
            asked, cwd=source.parent, env=variables, capture_output=True, text=True, check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    lines = said.stdout.splitlines()
    head = next(line.split()[-1] for line in lines if line.startswith("# branch.oid "))
    if head == "(initial)":  # nothing is committed yet
        return None
    return head + "+" * any(not line.startswith("# ") for line in lines)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file so that it is either whole or as it was, after a power failure too; text as UTF-8.

    Raises:
        OSError: it names the file, whatever failed.
    """
    with written_beside(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def written_beside(path: Path) -> Iterator[Path]:
    """Give the name to write a file under until it is whole and on the disk; it then takes the place of `path`. Where
    an error or a signal ends the writing, the part is removed, as a full disk needs the space, and `path` is as it was.

    Raises:
        OSError: it names `path`, whatever failed.
    """
    temporary = _beside(path)
    with naming(path, under=temporary):
        try:
            yield temporary
            sync(temporary)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextmanager
def written_together(folder: Path) -> Iterator[Path]:
    """Give an empty folder for files that belong together. Once all of them are whole and on the disk they are moved
    into `folder`, which is made if it is not there; where an error or a signal ends the writing, `folder` is as it was.

    Raises:
        OSError: it names the file by its place in `folder`, whatever failed.
    """
    there = folder.exists()  # a file too, in which no folder can be made
    # In a folder that is there, which may be a file system of its own; else beside it, so that one rename makes it.
    temporary = folder / ".writing" if there else _beside(folder)
    with naming(folder, under=temporary):
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
    with whole_or_removed(temporary, folder):
        yield temporary
        files = sorted(temporary.iterdir())
        for file in files:
            sync(file)
        if not there:
            temporary.rename(folder)
            return
        for file in files[1:]:  # killed half-way, a folder lacks a file rather than has one of another set
            (folder / file.name).unlink(missing_ok=True)
        for file in files:
            os.replace(file, folder / file.name)
        temporary.rmdir()


@contextmanager
def whole_or_removed(folder: Path, final: Path, *kinds: type[Exception]) -> Iterator[None]:
    """Remove a folder whose writing an error or a signal ends; an error names the newest file, by its place in `final`.

    Raises:
        OSError: for these `kinds` of error too.
    """
    try:
        yield
    except BaseException as error:
        newest = max(folder.glob("*"), key=lambda path: path.stat().st_mtime_ns, default=folder)
        named = getattr(error, "filename", None)
        file = Path(named) if isinstance(named, str) and Path(named).parent == folder else newest
        try:
            with naming(final if file == folder else final / file.name, *kinds, under=file):
                raise
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def remove_folder(folder: Path) -> None:
    """Remove a folder, or do nothing if there is none. It loses its name first: where a kill ends the removal, what is
    left lies under `NAME.removing`, and the next removal of `NAME` takes it away.

    Raises:
        OSError: it cannot be renamed.
    """
    going = folder.with_name(f"{folder.name}.removing")
    shutil.rmtree(going, ignore_errors=True)
    if folder.exists():
        folder.rename(going)
        shutil.rmtree(going, ignore_errors=True)


def _beside(path: Path) -> Path:
    """The name that a file or folder is written under."""
    return path.with_name(f"{path.name}.writing")


def read_json(path: Path) -> Json:
    """The content of a JSON file.

    Raises:
        Damaged: it is missing, or no JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise Damaged(f"{path}: is missing") from error
    except (ValueError, RecursionError) as error:  # of JSON, or of UTF-8
        raise Damaged(f"{path}: is damaged ({error})" if path.stat().st_size else f"{path}: is empty") from error


_MAX_DEPTH = 20
"""Levels of a YAML file at most: settings have four."""


def read_yaml(path: Path) -> object:
    """The content of a YAML file of settings: without aliases, by which a few lines can stand for as much as memory
    holds, and without a key that is there twice. Keys and dates are texts as they are written, so that the key `on` is
    no truth value.

    Raises:
        YAMLError: it is no such file; the message names the file, the line and the key.
    """
    import yaml

    try:
        with path.open(encoding="utf-8") as file:
            return parse_yaml(file)
    except UnicodeDecodeError as error:
        raise yaml.YAMLError(f"it is no UTF-8 ({error.reason})") from error


def parse_yaml(content: str | IO[str]) -> object:
    """Read a text or an open file as `read_yaml` does."""
    import yaml  # of the extra [train]

    def refusal(said: str, node: Any) -> yaml.YAMLError:
        return yaml.constructor.ConstructorError(None, None, said, node.start_mark)

    class Loader(yaml.SafeLoader):
        depth = 0

        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            if self.check_event(yaml.AliasEvent):
                raise refusal("an alias (*name); write out what it stands for", self.peek_event())
            if self.depth > _MAX_DEPTH:
                raise refusal("is nested too deeply", self.peek_event())
            self.depth += 1
            try:
                return super().compose_node(parent, index)
            finally:
                self.depth -= 1

        def construct_object(self, node: yaml.Node, deep: bool = False) -> object:
            try:
                return super().construct_object(node, deep)
            except (ValueError, OverflowError) as error:  # a number of 5,000 digits
                raise refusal(f"{node.value[:SHOWN]!r} is no value: {reason(error)}", node) from error

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
            held: dict[Hashable, object] = {}
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    raise refusal("a key must be a word", key)
                if key.value in held:
                    raise refusal(f"the key {key.value!r} is there twice", key)
                held[key.value] = self.construct_object(value, deep=True)
            return held

        yaml_constructors = yaml.SafeLoader.yaml_constructors | {
            "tag:yaml.org,2002:timestamp": yaml.SafeLoader.construct_yaml_str,
            "tag:yaml.org,2002:map": construct_mapping,
        }

    return yaml.load(content, Loader)


@contextmanager
def naming(path: Path, *kinds: type[Exception], under: Path | None = None) -> Iterator[None]:
    """Let an error of writing `path`, or the name `under` which it is written, name it, and the space that is left: an
    OSError, for `kinds` of error too.
    """
    try:
        yield
    except Exception as error:
        named, number = getattr(error, "filename", None), getattr(error, "errno", None)
        if not isinstance(error, (OSError, *kinds)) or named not in (None, str(under)):
            raise
        reason = os.strerror(number) if number else "could not be written"
        if named is not None:  # what was within has worded it
            reason = str(getattr(error, "strerror", reason))
        if (number is None or number in _OF_SPACE) and _FREE not in reason:
            there = next(parent for parent in path.absolute().parents if parent.exists())
            reason += f"; {shutil.disk_usage(there).free / 2**20:,.1f} {_FREE}"
        raise OSError(number or errno.EIO, reason, str(path)) from error


def sync(path: Path) -> None:
    """Bring a file, or a folder's names, onto the disk."""
    handle = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)  # Windows brings what it may write
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _version(package: str) -> str | None:
    """The version of a package; None where it is not installed: the core works without the extras."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
