"""Third-party projects with our LSTM and GRU in the place of torch's: they pass, and a seed gives the numbers it gave.

    python tools/outsiders.py                # makes .venv-outsiders, installs into it, runs every project both ways
    python tools/outsiders.py darts skorch   # these alone

What each does is in `outsiders_projects.py`. A line for each project says whether it passed and how far its numbers
moved; exit code 1 if one failed.
"""

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECTS = Path(__file__).with_name("outsiders_projects.py")
CONSTRAINTS = ["--constraint", str(ROOT / "constraints.txt")]
NAMES = ("sb3-contrib", "neuralforecast", "darts", "skorch", "lightning")
PACKAGES = [
    "neuralforecast==3.3.0", "darts==0.48.1", "skorch==1.4.0", "pytorch-lightning==2.6.6", "gymnasium==1.4.0",
    "cloudpickle", "pytest",
]  # fmt: skip
SB3_CONTRIB = "sb3-contrib==2.9.2"
WITHOUT_DEPENDENCIES = ["stable-baselines3==2.9.2", SB3_CONTRIB]  # they ask for a torch newer than the tested one


def install(environment: Path) -> Path:
    """The environment's Python; made once. The tests of sb3-contrib are in its source distribution, beside it."""
    python, sources, done = environment / "bin" / "python", environment / "sources", environment / "installed"
    if not done.exists():
        print(f"Installing into {environment}: some minutes and 3 GB.", flush=True)
        venv.create(environment, with_pip=True)
        for command in (
            ["install", *CONSTRAINTS, "torch"],
            ["install", *CONSTRAINTS, "--editable", str(ROOT), *PACKAGES],
            ["install", "--no-deps", *WITHOUT_DEPENDENCIES],
            ["download", "--no-deps", "--no-binary", ":all:", "--dest", str(sources), SB3_CONTRIB],
        ):
            subprocess.run([str(python), "-m", "pip", "--quiet", *command], check=True)
        for archive in sources.glob("*.tar.gz"):
            with tarfile.open(archive) as members:
                members.extractall(sources, filter="data")
        done.touch()
    return python


def run(name: str, python: Path) -> tuple[bool, str]:
    """One project with torch's layers, then with ours: whether it passed, and its last line or the end of its error."""
    # Some virtual machines announce AMX and end the process that uses it, as in the tests.
    environment = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"} | os.environ | {"OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        for layers in ("torch", "gatedrnn"):
            command = [str(python), str(PROJECTS), name, layers, str(python.parents[1] / "sources")]
            ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
            if ended.returncode:
                return False, f"with the layers of {layers}:\n{(ended.stdout + ended.stderr)[-3000:]}"
    return True, ended.stdout.splitlines()[-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("projects", nargs="*", metavar="PROJECT", help=f"{', '.join(NAMES)}; default: all")
    parser.add_argument("--environment", type=Path, default=ROOT / ".venv-outsiders", help="made if it is missing")
    arguments = parser.parse_args()
    if unknown := set(arguments.projects) - set(NAMES):
        parser.error(f"unknown project {', '.join(sorted(unknown))}; known are {', '.join(NAMES)}")
    python = install(arguments.environment.resolve())
    failed = False
    for name in arguments.projects or NAMES:
        passed, line = run(name, python)
        failed |= not passed
        print(f"{name:16}{'passed' if passed else 'FAILED'}  {line}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
