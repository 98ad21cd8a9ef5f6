"""Where numbers were measured: versions and processor, and nothing that names a machine or its user."""

import datetime
import os
import platform
from importlib.metadata import version
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
            "versions": {package: version(package) for package in PACKAGES},
        },
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
