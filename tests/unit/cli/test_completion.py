"""Shells complete commands and flags once they are asked to."""

import shutil
import subprocess

import pytest
from commands import call

ASK = """
. "$HOME/.local/share/bash-completion/completions/gatedrnn"
COMP_WORDS=({words}); COMP_CWORD={place}; _gatedrnn; echo "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home where completion is installed, which asks the whole command line for its flags."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        call("--install-completion", "--shell", "bash")
    return folder


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize("words, expected", [
    ("gatedrnn tra", "train"), ("gatedrnn train --learning-r", "--learning-rate"),
    ("gatedrnn predict --out", "--output"),
])  # fmt: skip
def test_bash_completes_commands_and_flags(words, expected, home, monkeypatch):
    monkeypatch.setenv("HOME", str(home))
    script = ASK.format(words=words, place=len(words.split()) - 1)
    said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout
    assert said.split() == [expected]
