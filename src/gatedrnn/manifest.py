"""manifest.json: sizes and sums of a folder's files, so that what is read is what was written."""

import hashlib
import json
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias, cast

from gatedrnn.errors import Damaged
from gatedrnn.machine import cores
from gatedrnn.records import Json, read_json, write_whole

MANIFEST = "manifest.json"
HEADING = f"# Its sum is in {MANIFEST}: settings of another run belong in another folder.\n"
"""First line of a settings file, whose folder has a manifest."""
LOG = logging.getLogger("gatedrnn")

Entry: TypeAlias = dict[str, int | str]
"""`bytes` and `sha256` of a file."""


def entry_of(content: bytes) -> Entry:
    """The entry of a manifest for a file with this content."""
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def entry_at(path: Path) -> Entry:
    """The entry of a manifest for a file on the disk, of any size."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}


def write(folder: Path, files: dict[str, Entry], **facts: Json) -> None:
    """Write a folder's manifest: its files by their names in it, and what else is to be kept with them."""
    held = {**facts, "files": files}
    write_whole(folder / MANIFEST, json.dumps({**held, "sha256": _sum(held)}, indent=1, ensure_ascii=False))


def add(folder: Path, *names: str) -> None:
    """Write files of `folder` down as they are now, in the manifest that is there or in a new one."""
    entries = read(folder) if (folder / MANIFEST).exists() else {}
    write(folder, {**entries, **{name: entry_at(folder / name) for name in names}})


def read(folder: Path) -> dict[str, Entry]:
    """The files of a folder's manifest.

    Raises:
        Damaged: there is none, or it cannot be read.
    """
    return cast(dict[str, Entry], facts(folder)["files"])  # the manifest's own sum was checked


def facts(folder: Path) -> dict[str, Json]:
    """All that a folder's manifest holds: `files`, and what is kept with them.

    Raises:
        Damaged: there is none, or it is not as it was written.
    """
    path = folder / MANIFEST
    try:
        held = read_json(path)
    except Damaged as error:
        raise Damaged(f"{error}; remove it to go on without a check") from error
    if not isinstance(held, dict) or held.pop("sha256", None) != _sum(held):
        raise Damaged(f"{path}: does not match its own sum; remove it to go on without a check")
    return held


def _sum(held: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(held, sort_keys=True).encode()).hexdigest()


def of(path: Path) -> Entry | None:
    """The entry of a file in its folder's manifest; None if there is nothing."""
    return read(path.parent).get(path.name) if (path.parent / MANIFEST).exists() else None


def faults(folder: Path) -> dict[str, str]:
    """The fault of each file of a manifest, by name; none for files that are as they were written.

    Raises:
        Damaged: the manifest itself cannot be read.
    """
    entries = read(folder)
    with ThreadPoolExecutor(cores()) as threads:  # sums of gigabytes, which take no lock
        reports = threads.map(fault_of, (folder / name for name in entries), entries.values())
        return {name: fault for name, fault in zip(entries, reports, strict=True) if fault}


def fault_of(path: Path, entry: Entry) -> str | None:
    """The fault of a file; None if it is as it was written."""
    if not path.is_file():
        return "is missing"
    size = path.stat().st_size
    if size != entry.get("bytes", size):
        return f"has {size:,} bytes where {entry['bytes']:,} were written"
    return None if entry_at(path)["sha256"] == entry.get("sha256") else "does not match its sha256 sum"


def check(folder: Path) -> None:
    """Check that every file that a folder's manifest lists is as it was written; nothing if it has no manifest.

    Raises:
        Damaged: one is not, or the manifest cannot be read.
    """
    if (folder / MANIFEST).exists():
        for name, fault in faults(folder).items():
            raise Damaged(f"{folder / name}: {fault}. Restore it; if the change is yours, remove {folder / MANIFEST}")


def say_what_is_made_again(folder: Path) -> None:
    """Name the files that are not as they were written, where all of them are about to be made again."""
    if (folder / MANIFEST).exists():
        for name, fault in faults(folder).items():
            LOG.warning("%s: %s; it is made again", folder / name, fault)


def is_expected(settings: Path) -> bool:
    """Whether the folder of a settings file has its manifest; where it has not, a line says that nothing is checked."""
    if (settings.parent / MANIFEST).exists():
        return True
    LOG.warning("%s: is missing; files of this folder are not checked", settings.parent / MANIFEST)
    return False
