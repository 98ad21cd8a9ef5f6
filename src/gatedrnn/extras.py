"""The extras of the installation: the packages that each brings, and what to type where one is missing."""

import sys
from importlib.util import find_spec

from gatedrnn.errors import MissingExtra

EXTRAS = {
    "ray": ("ray",), "slurm": ("submitit",),
    "export": ("onnx", "onnxruntime", "onnxscript"), "series": ("statsforecast", "sktime"),
    "train": ("pydantic", "transformers", "accelerate", "tokenizers", "safetensors", "pyarrow", "pandas"),
}  # fmt: skip
"""Packages by the extra that brings them; of [train] those without which nothing of it works."""
_USUAL = "series,export"
"""The extras of the README, which bring [train] too."""


def install_line(extra: str) -> str:
    """The command that installs an extra, in the folder of the project's source: no index has a release.

    Example:
        >>> install_line("train")
        "pip install -c constraints.txt '.[series,export]'"
    """
    return f"pip install -c constraints.txt '.[{extra if extra in ('ray', 'slurm') else _USUAL}]'"


def missing(package: str) -> MissingExtra:
    """The error for a package that is not installed."""
    extra = next((extra for extra, packages in EXTRAS.items() if package in packages), "train")
    said = f"{package} is not installed; this needs: {install_line(extra)}, in the folder of gatedrnn's source"
    return MissingExtra(said, name=package)


def require(extra: str) -> None:
    """Check that an extra is installed; called first by the packages that need it.

    Raises:
        MissingExtra: it is not.
    """
    for package in EXTRAS[extra]:
        if not _is_installed(package):
            raise missing(package)


def _is_installed(package: str) -> bool:
    try:
        return sys.modules.get(package) is not None or find_spec(package) is not None
    except ModuleNotFoundError:  # of a finder that is asked first
        return False
