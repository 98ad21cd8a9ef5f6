"""What kept numbers need: where they were measured (naming no machine and no user), and files that are whole."""

import datetime
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("gatedrnn", "torch", "numpy", "numba", "transformers", "accelerate", "tokenizers", "scikit-learn")


def environment() -> dict[str, Any]:
    """Date, versions, system and processor."""
    return {
        "date": datetime.date.today().isoformat(),
        "environment": {
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
            "processor": _processor(),
            "cores": os.cpu_count(),
            "versions": {package: found for package in PACKAGES if (found := _version(package)) is not None},
        },
    }


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is either whole or as it was."""
    temporary = path.with_name(f"{path.name}.writing")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def _version(package: str) -> str | None:
    """None where it is not installed: the core works without the extras."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
