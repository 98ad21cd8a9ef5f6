"""What was compiled from older sources is compiled again.

Numba looks at the file of the function that it kept, and not at those of the functions that were compiled into it.
"""

from pathlib import Path


def forget_stale(sources: Path) -> None:
    """Remove from the `__pycache__` of a folder what Numba kept there before the newest of its sources was written."""
    newest = max(file.stat().st_mtime for file in sources.glob("*.py"))
    for index in (sources / "__pycache__").glob("*.nbi"):
        if index.stat().st_mtime < newest:
            index.unlink(missing_ok=True)
