"""Tokenised texts on disk: made once, whole or not there, their sums checked whenever they are opened."""

import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from gatedrnn import manifest
from gatedrnn.errors import Damaged, UsageError
from gatedrnn.locks import held
from gatedrnn.records import Json, remove_folder, sync, whole_or_removed
from gatedrnn.user_cache import cache_folders

LOG = logging.getLogger("gatedrnn")
_MAKING = "making-"


def cache_folder() -> Path:
    """The folder of tokenised texts, in the user's cache.

    Raises:
        UsageError: the user has none.
    """
    for folder in cache_folders():
        return folder / "tokens"
    raise UsageError("tokenised texts have no folder: this user has no home; set XDG_CACHE_HOME to an absolute path")


def counts_folder() -> Path:
    """The folder that records how many characters texts have."""
    return cache_folder().with_name("characters")


def entry(key: str, make: Callable[[Path], dict[str, Json]]) -> Path:
    """The folder of `key`, as `make` wrote it; made if it is not there, and anew, with a line, if it is damaged.

    Of several processes that ask for it one makes it, and the others wait.

    Args:
        key: what the content follows from.
        make: writes the files into a folder and returns what `gatedrnn cache` shows of them; see `Kept`.
    """
    folder = cache_folder() / key
    if fault_of(folder) is None:
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with held(folder.with_suffix(".lock"), f"{folder}", wait=True):
        fault, making = fault_of(folder), folder.with_name(f"{_MAKING}{key}")
        if fault is None:  # another process has made it
            return folder
        if folder.exists() or making.exists():
            LOG.warning("%s: %s; the text is tokenised again", folder, fault if folder.exists() else "is half-written")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir()
        with whole_or_removed(making, folder):
            facts = make(making)
            files = sorted(path.name for path in making.iterdir())
            for name in files:
                sync(making / name)
            manifest.write(making, {name: manifest.entry_at(making / name) for name in files}, **facts)
            remove_folder(folder)
            making.rename(folder)
        sync(folder.parent)
    return folder


def fault_of(folder: Path) -> str | None:
    """The reason why an entry cannot be used; None if all its files are as they were written."""
    if not folder.exists():
        return "is missing"
    try:
        return next((f"{name} {fault}" for name, fault in manifest.faults(folder).items()), None)
    except Damaged:
        return f"{manifest.MANIFEST} is missing or damaged"


class Kept(NamedTuple):
    """An entry of the cache, as `gatedrnn cache` shows it."""

    folder: Path
    texts: str
    """Names of the files or sets; empty where the manifest cannot be read."""
    tokenizer: str
    tokens: int
    bytes: int
    fault: str | None


def kept() -> Iterator[Kept]:
    """All entries; those that another version wrote or that were never finished are among them, with that fault."""
    root = cache_folder()
    for folder in sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []:
        size = sum(path.stat().st_size for path in folder.iterdir())
        fault = "is half-written" if folder.name.startswith(_MAKING) else fault_of(folder)
        facts = {} if fault else manifest.facts(folder)
        yield Kept(
            folder, str(facts.get("texts", "")), str(facts.get("tokenizer", "")), int(str(facts.get("tokens", 0))),
            size, fault,
        )  # fmt: skip


def clear() -> int:
    """Remove all entries, each when no process is making it; the bytes that this frees."""
    freed = 0
    for count in counts_folder().glob("*"):
        count.unlink(missing_ok=True)
    for entry in kept():
        name = entry.folder.name.removeprefix(_MAKING)
        with held(cache_folder() / f"{name}.lock", f"{entry.folder}", wait=True):
            remove_folder(entry.folder)  # the process that made it may have renamed it by now
        freed += entry.bytes
    return freed
