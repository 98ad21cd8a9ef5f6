"""Build the wheel and the sdist of this commit, try each in an environment of its own, and set the tag.

    python tools/release.py [--tag]

The version is `gatedrnn.__version__`. Without `--tag` everything runs but the last step. Files are left in dist/.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from cyclopts import App

import gatedrnn

ROOT = Path(__file__).resolve().parents[1]
TRIAL = """
import torch
import gatedrnn
assert gatedrnn.__version__ == {version!r}
output, state = gatedrnn.MinGRU(3, 8, batch_first=True)(torch.randn(2, 5, 3))
output.sum().backward()
"""
"""A program that a user's first one looks like."""

app = App(help=__doc__)


def run(*command: str | Path, folder: Path = ROOT, environment: Mapping[str, str] = MappingProxyType({})) -> str:
    """Run a command, with further variables, and return what it printed; ends the program if it fails."""
    done = subprocess.run(command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def check_release(version: str) -> None:
    """Check that the tree is clean, the tag is new, and the changelog has a section for the version."""
    if run("git", "status", "--porcelain"):
        sys.exit("the working tree has changes; commit them first")
    if run("git", "tag", "--list", f"v{version}"):
        sys.exit(f"the tag v{version} exists; raise __version__ in src/gatedrnn/__init__.py")
    if not re.search(rf"^## {re.escape(version)}$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M):
        sys.exit(f"CHANGELOG.md has no section '## {version}'")


def try_out(built: Path, version: str) -> None:
    """Install a wheel or an sdist into a new environment and use it there, outside the repository."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(sys.executable, "-m", "venv", folder / "env")
        python = folder / "env" / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", built)
        run(python, "-c", TRIAL.format(version=version), folder=folder)
        run(folder / "env" / "bin" / "gatedrnn", "verify", "mingru", folder=folder)


@app.default
def release(*, tag: bool = False) -> None:
    """Build, try and, if asked, tag.

    Args:
        tag: Set the tag v<version> on this commit; `git push --tags` publishes it.
    """
    version, dist = gatedrnn.__version__, ROOT / "dist"
    check_release(version)
    shutil.rmtree(dist, ignore_errors=True)
    run("make", "view")  # its tests too
    run(sys.executable, "-m", "build", "--outdir", dist, environment={"GATEDRNN_RELEASE": "1"})
    for built in sorted(dist.iterdir()):
        try_out(built, version)
        print(f"{built.name}: installs, imports, and verify holds")
    if tag:
        run("git", "tag", "--annotate", f"v{version}", "--message", f"gatedrnn {version}")
        print(f"tagged v{version}")


if __name__ == "__main__":
    app()
