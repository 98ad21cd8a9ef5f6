"""The READMEs and the pages of the documentation, and the code blocks in them; real data beside the repository."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "data"
needs_shared_data = pytest.mark.skipif(not SHARED.is_dir(), reason=f"the real data are not at {SHARED}")
ENGLISH, KOREAN = ROOT / "README.md", ROOT / "README.ko.md"
GUIDE = [page for folder in ("", "from/") for page in sorted((ROOT / "docs").glob(f"{folder}*.md"))]
PAGES = [ENGLISH, KOREAN, *GUIDE]


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.S | re.M)


def commands(page: Path, program: str) -> list[str]:
    """The lines of its shell blocks that call `program`."""
    lines = [line for block in blocks(page, "bash") for line in block.splitlines()]
    return [line for line in lines if line.startswith(program + " ")]
