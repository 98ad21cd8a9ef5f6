"""The commit that made a result: that of the checkout, a plus where its sources were changed, nothing without
either.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gatedrnn
from gatedrnn.pages import environment_rows
from gatedrnn.records import commit, environment


@pytest.fixture
def sources(tmp_path):
    """A package of as much as `commit` imports, below the folder of a checkout that is none yet."""
    package = tmp_path / "checkout" / "src" / "gatedrnn"
    package.mkdir(parents=True)
    for name in ("records.py", "errors.py", "machine.py"):
        shutil.copyfile(Path(gatedrnn.__file__).with_name(name), package / name)
    (package / "__init__.py").touch()
    return package.parent


def git(folder, command):
    identity = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org")
    return subprocess.check_output(["git", *identity, *command.split()], cwd=folder, text=True).strip()


def committed(folder):
    return [git(folder, c) for c in ("init --quiet", "add --all", "commit --quiet -m all", "rev-parse HEAD")][-1]


def asked(path, **environment):
    script = "from gatedrnn.records import commit; import json; print(json.dumps(commit()))"
    env = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(path), **environment}
    return json.loads(subprocess.check_output([sys.executable, "-c", script], env=env))


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_a_checkout_is_named_by_its_commit_with_a_plus_where_sources_were_changed_and_a_wheel_inside_is_not(sources):
    assert asked(sources) is None
    git(sources.parent, "init --quiet")
    assert asked(sources) is None  # nothing is committed yet
    head = committed(sources.parent)
    assert len(head) == 40 and asked(sources) == head
    (sources.parent / "notes.txt").touch()  # no source
    assert asked(sources, GIT_DIR="/nowhere") == head  # as a hook of another repository may have set it
    (sources / "gatedrnn" / "new.py").touch()
    assert asked(sources) == f"{head}+"
    assert asked(sources, PATH="/nowhere") is None  # without git
    installed = sources.parent / ".venv" / "site-packages"
    shutil.copytree(sources, installed)
    committed(sources.parent)
    assert asked(installed) is None and asked(sources) is not None


def test_a_commit_is_shown_where_a_record_has_one():
    here = environment()
    assert here["environment"]["commit"] == commit()
    here["environment"]["commit"] = "0123abc+"
    assert ("commit", "0123abc+") in environment_rows(**here)
    del here["environment"]["commit"]  # as in a record from before there was one
    assert "commit" not in dict(environment_rows(**here))
