"""The READMEs: both languages show the same commands, the Python runs, the commands parse."""

import re
import shlex
from pathlib import Path

import pytest

from gatedrnn.cli.app import build_app

ROOT = Path(__file__).parent.parent
ENGLISH, KOREAN = (ROOT / name for name in ("README.md", "README.ko.md"))


def blocks(path: Path, language: str) -> list[str]:
    """Fenced blocks of one language, comments left out: those are translated."""
    found = re.findall(rf"```{language}\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.S)
    return ["\n".join(line.split("#")[0].rstrip() for line in block.splitlines()) for block in found]


@pytest.mark.parametrize("language", ["bash", "python"])
def test_both_languages_show_the_same_code(language: str) -> None:
    assert blocks(ENGLISH, language)
    assert blocks(KOREAN, language) == blocks(ENGLISH, language)


def test_both_languages_quote_the_same_numbers() -> None:
    numbers = [re.findall(r"0\.\d{3,4}", path.read_text(encoding="utf-8")) for path in (ENGLISH, KOREAN)]
    assert sorted(numbers[0]) == sorted(numbers[1])


def test_every_shown_flag_exists() -> None:
    for block in blocks(ENGLISH, "bash"):
        for line in block.splitlines():
            if line.startswith(".venv/bin/gatedrnn"):
                # Parsed and bound, not run; an unknown flag or value raises.
                arguments = [part for part in shlex.split(line)[1:] if part != "--help"]
                build_app().parse_args(arguments, exit_on_error=False, print_error=False)


def test_the_python_about_layers_runs() -> None:
    namespace: dict[str, object] = {}
    for block in blocks(ENGLISH, "python"):
        if "runs/" not in block:  # of a run that is not there
            exec(compile(block, "README.md", "exec"), namespace)
    assert namespace["layer"](namespace["x"])[0].shape == (8, 100, 128)  # type: ignore[operator]


def test_every_make_target_that_is_named_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    text = "".join(path.read_text(encoding="utf-8") for path in (ENGLISH, KOREAN, ROOT / "CONTRIBUTING.md"))
    for target in set(re.findall(r"`?make (\w+)`", text)) | {"compare", "test"}:
        assert re.search(rf"^{target}:", makefile, flags=re.M), target
