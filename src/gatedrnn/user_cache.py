"""Folders of the user's own for what is computed once and kept between processes."""

import os
import sys
from pathlib import Path


def home_folder() -> Path | None:
    """Return the user's home; None where there is none, as in some containers."""
    home = Path(os.path.expanduser("~"))  # "~" remains where there is none, which would be a folder of the current one
    return home if home.is_absolute() else None


def cache_folders() -> list[Path]:
    """Return the folders in which this package may keep what it can make again, the preferred one first.

    They are `gatedrnn` below XDG_CACHE_HOME where that is set, and below the system's folder for a user's caches:
    `~/.cache` on Linux, `~/Library/Caches` on macOS, LOCALAPPDATA on Windows. A path that is not absolute does not
    count: the current folder may be anybody's.
    """
    home, named = home_folder(), [os.environ.get("XDG_CACHE_HOME", "")]
    if sys.platform == "win32":
        named.append(os.environ.get("LOCALAPPDATA", ""))
    elif home is not None:
        named.append(str(home / "Library" / "Caches" if sys.platform == "darwin" else home / ".cache"))
    return [folder / "gatedrnn" for folder in dict.fromkeys(map(Path, named)) if folder.is_absolute()]
