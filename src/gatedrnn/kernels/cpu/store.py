"""Compiled functions on disk: where they lie, and which of them are loaded.

A compiled function is a pickle: loading it can run any code. So a file is loaded only if it and its folder belong to
this user or root, nobody else can write them, and the file is signed with a key that only this user can read. A folder
that an environment variable names needs no key: that is how users of a cluster share one.

On Windows, which has no such modes, folders are not checked, and every file must be signed: the key lies in the user's
profile, which other users cannot read.
"""

import hashlib
import hmac
import logging
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock

from gatedrnn.errors import KernelRefused
from gatedrnn.user_cache import cache_folders, home_folder

LOG = logging.getLogger("gatedrnn")
VARIABLES = ("GATEDRNN_KERNEL_CACHE", "NUMBA_CACHE_DIR")
"""Environment variables that name the folder; the first that is set counts."""
SOURCES = Path(__file__).parent
_DIGEST = hashlib.sha256().digest_size
_KEY = "key"
"""The file of the key, beside the folders of kernels in the user's cache."""
_OWN_LEVELS = 3  # gatedrnn/kernels/gatedrnn-…
_HAS_OWNERS = hasattr(os, "geteuid")
# Neither a link to somebody's file nor a pipe, on which opening would wait, is opened.
_READ_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_BINARY", "O_NOFOLLOW", "O_NONBLOCK"))
# O_EXCL: a file or a link that somebody put there beforehand is an error and not written through.
_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | sum(getattr(os, name, 0) for name in ("O_BINARY", "O_NOFOLLOW"))


class Location(NamedTuple):
    """A folder of compiled functions."""

    folder: Path
    named: bool
    """Whether an environment variable names it, and not the system's conventions."""

    @property
    def signed(self) -> bool:
        """Whether its files must be signed with the user's key."""
        return not self.named or not _HAS_OWNERS


_warned = set[Path]()


def _warn_once(folder: Path, message: str) -> None:
    """Log the first message about a folder; others of it would say the same."""
    if folder not in _warned:
        _warned.add(folder)
        LOG.warning("%s", message)


def locations() -> list[Location]:
    """Return where compiled functions are looked for: the folder that a variable names, then the user's own."""
    # One folder for each installation: two of different versions would overwrite each other's kernels.
    name = "gatedrnn-" + hashlib.sha256(str(SOURCES).encode()).hexdigest()[:16]
    found = [Location(folder / "kernels" / name, False) for folder in cache_folders()]
    for variable in VARIABLES:
        folder = Path(os.environ.get(variable, ""))
        if folder.is_absolute():
            return [Location(folder / name, True), *found]
        if os.environ.get(variable):
            _warn_once(folder, f"{variable}={folder} is ignored: the path of compiled kernels must be absolute")
    return found


def trusted() -> Iterator[Location]:
    """The places that only this user and root can write; a line is logged for each other one."""
    for location in locations():
        try:
            _check_folders(location)
        except KernelRefused as refused:
            _warn_once(location.folder, f"{refused}; kernels are not loaded from there, but compiled anew")
        else:
            yield location


def saving_folder() -> Path | None:
    """Return where compiled functions are saved, as far as permissions say; None if nowhere."""
    return next((location.folder for location in trusted() if _can_write(location.folder)), None)


def why_not_saved() -> list[str]:
    """Return why there is no such folder."""
    return [f"{location.folder}: cannot be written" for location in trusted()] or [
        "this user has no home folder, and no variable names a folder that only this user can write"
    ]


def read(name: str, source_hash: bytes) -> bytes | None:
    """Return what was saved under this name by these sources; None if there is nothing that may be loaded.

    Args:
        name: of the file.
        source_hash: a sum over the sources.
    """
    for location in trusted():
        try:
            if (payload := _read(location, name, source_hash)) is not None:
                return payload
        except KernelRefused as refused:
            _warn_once(location.folder, f"{refused}; it is not loaded, but compiled anew")
        if _can_write(location.folder):  # what is not in there will be
            return None
    return None


def write(name: str, source_hash: bytes, payload: bytes) -> list[str]:
    """Save a compiled function in the first place that can be written; return why none could be, if so."""
    reasons = []
    for location in trusted():
        try:
            make_folder(location)
            key = _key(create=True) if location.signed else b""
            if key is None:
                raise OSError(0, "there is no folder for the key of this user")
            # In a named folder other users of a cluster read the file.
            _write(location.folder / name, packed(name, source_hash, payload, key), 0o644 if location.named else 0o600)
            return []
        except OSError as error:
            reasons.append(f"{location.folder}: {error.strerror}")
            if _can_write(location.folder):  # `read` looks in no other
                break
    return reasons or why_not_saved()


def remove(name: str) -> None:
    """Delete what was saved under this name."""
    for location in trusted():
        with suppress(OSError):
            (location.folder / name).unlink(missing_ok=True)


def packed(name: str, source_hash: bytes, payload: bytes, key: bytes = b"") -> bytes:
    """The content of a file: a sum over name, source hash and payload, the sum signed, the hash, the payload."""
    checksum = _checksum(name, source_hash + payload)
    return checksum + hmac.digest(key, checksum, "sha256") + source_hash + payload


def make_folder(location: Location) -> None:
    """Make a place's folder, and those above it that are missing; others cannot read the user's own.

    Raises:
        OSError: it cannot be made, or somebody else has made it.
    """
    for folder in reversed([folder for folder in (location.folder, *location.folder.parents) if not folder.exists()]):
        # Another process may make it at the same moment; whose it is, is checked below.
        with suppress(FileExistsError):
            folder.mkdir(0o755 if location.named else 0o700)
    try:
        _check_folders(location)
    except KernelRefused as refused:
        raise OSError(0, str(refused)) from None


def is_of(file: Path, source_hash: bytes) -> bool:
    """Whether a file says that it is of these sources."""
    try:
        with file.open("rb") as opened:
            return opened.read(3 * _DIGEST)[2 * _DIGEST :] == source_hash
    except OSError:
        return False


def _checksum(name: str, content: bytes) -> bytes:
    # The name is in the sum: a signed file under another name is refused. The zero byte ends the name.
    return hashlib.sha256(name.encode() + b"\0" + content).digest()


def _read(location: Location, name: str, source_hash: bytes) -> bytes | None:
    path = location.folder / name
    content = _read_checked(path)
    if content is None or content[2 * _DIGEST : 3 * _DIGEST] != source_hash:
        return None
    checksum, signature = content[:_DIGEST], content[_DIGEST : 2 * _DIGEST]
    # A torn file is compiled anew without a word; a complete one with a foreign signature is reported.
    if checksum != _checksum(name, content[2 * _DIGEST :]):
        return None
    if location.signed:
        key = _key()
        if key is None or not hmac.compare_digest(signature, hmac.digest(key, checksum, "sha256")):
            raise KernelRefused(f"{path} is not signed with the key of this user")
    return content[3 * _DIGEST :]


def _read_checked(path: Path, others: int = 0o022) -> bytes | None:
    """A file's content; None if there is no such file.

    Args:
        others: the bits of its mode that nobody else may have.

    Raises:
        KernelRefused: it is no file, or somebody else could have written it.
    """
    try:
        descriptor = os.open(path, _READ_FLAGS)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except OSError as error:  # of a symbolic link, for one
        raise KernelRefused(f"{path} cannot be opened as a file ({error.strerror})") from None
    with open(descriptor, "rb") as file:  # what is checked is what is read, whatever the path names by now
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise KernelRefused(f"{path} is no file")
        _check_owner(path, status)
        if _HAS_OWNERS and status.st_mode & others:
            raise KernelRefused(f"{path} is open to other users (mode {stat.S_IMODE(status.st_mode):o})")
        return file.read()


def _key(*, create: bool = False) -> bytes | None:
    """The key of this user; None if there is none, and if it cannot be made.

    Raises:
        OSError: it cannot be written.
    """
    own = next((location for location in trusted() if not location.named), None)
    if own is None:
        return None
    path = own.folder.with_name(_KEY)
    if (key := _read_key(path)) is None and create:
        make_folder(own)
        with FileLock(path.with_suffix(".lock"), mode=0o600):  # of two processes one makes it
            if (key := _read_key(path)) is None:
                key = secrets.token_bytes(_DIGEST)
                _write(path, key, 0o600)
    return key


def _read_key(path: Path) -> bytes | None:
    """The key, if it is whole and nobody else could have read it."""
    try:
        key = _read_checked(path, 0o077)
    except KernelRefused:
        return None
    return key if key is not None and len(key) == _DIGEST else None


def _write(path: Path, content: bytes, mode: int) -> None:
    """Under another name first: who reads it finds all of it or nothing."""
    partial = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with open(os.open(partial, _WRITE_FLAGS, mode), "wb") as file:
            file.write(content)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def _can_write(folder: Path) -> bool:
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    return nearest.is_dir() and os.access(nearest, os.W_OK)


def _check_folders(location: Location) -> None:
    """Check that only this user and root can write a folder, and put another in its place.

    The user's home and what is above it are not checked, nor is its folder of caches: who can write there runs code as
    this user anyway.

    Raises:
        KernelRefused: somebody else can.
    """
    if not _HAS_OWNERS:
        return
    homes = [] if (home := home_folder()) is None else [home, Path(os.path.realpath(home))]
    for start in (location.folder, Path(os.path.realpath(location.folder))):  # all links, and where they lead
        folders = [start, *start.parents]
        for base in homes:
            if base in folders:
                folders = folders[: folders.index(base) if location.named else _OWN_LEVELS]
                if not location.named and base.exists():
                    _check_owner(base, base.stat())
        for folder in folders:
            _check_folder(folder, innermost=folder == start)


def _check_folder(folder: Path, *, innermost: bool) -> None:
    try:
        status = folder.stat()
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise KernelRefused(f"{folder} cannot be looked into ({error.strerror})") from None
    _check_owner(folder, status)
    open_to_others = status.st_mode & 0o022
    if open_to_others and not innermost:
        if status.st_mode & stat.S_ISVTX:  # as in /tmp, others cannot rename what is in it
            return
        # Systems with a private group for each user have a umask of 002: their folders are safe.
        if open_to_others == stat.S_IWGRP and _is_alone_in(status.st_gid):
            return
    if open_to_others:
        raise KernelRefused(f"other users can write {folder} (mode {stat.S_IMODE(status.st_mode):o})")


def _check_owner(path: Path, status: os.stat_result) -> None:
    if _HAS_OWNERS and status.st_uid not in (0, os.geteuid()):
        raise KernelRefused(f"{path} belongs to another user (id {status.st_uid})")


def _is_alone_in(group: int) -> bool:
    """Whether a group is the one that systems make for a user alone, and this one's."""
    import grp
    import pwd

    try:
        user, named = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return user.pw_uid != 0 and named.gr_name == user.pw_name and set(named.gr_mem) <= {user.pw_name}
