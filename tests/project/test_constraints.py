"""What pyproject.toml promises of versions is what the two files of constraints install."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def pins(file: str) -> dict[str, str]:
    lines = (ROOT / file).read_text().splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def versions(file: str) -> dict[str, Version]:
    return {canonicalize_name(name): Version(version) for name, version in pins(file).items()}


def requirements(*lists: list[str]) -> list[Requirement]:
    found = [Requirement(line) for lines in lists for line in lines]
    return [requirement for requirement in found if requirement.name != PROJECT["name"]]


TESTED = versions("constraints.txt")
LOWEST = TESTED | versions("constraints-lowest.txt")
OF_USERS = requirements(PROJECT["dependencies"], EXTRAS["train"], EXTRAS["export"])


@pytest.mark.parametrize("requirement", OF_USERS + requirements(EXTRAS["dev"], EXTRAS["docs"]), ids=str)
def test_every_tested_version_lies_in_its_range(requirement):
    assert TESTED[canonicalize_name(requirement.name)] in requirement.specifier


@pytest.mark.parametrize("requirement", [r for r in OF_USERS if r.name != "torch"], ids=str)  # torch: one CPU build
def test_the_lowest_versions_are_the_lower_ends_of_the_ranges(requirement):
    lowest = LOWEST[canonicalize_name(requirement.name)]
    end = next(Version(part.version) for part in requirement.specifier if part.operator == ">=")
    assert lowest in requirement.specifier
    assert lowest.release[: len(end.release)] == end.release  # 5.14 is 5.14.0, or the first release of 5.14 that fits


def test_a_package_in_both_files_is_spelt_alike():
    """`make test-lowest` puts one line in the place of the other by the name as it is written."""
    written = {canonicalize_name(name): name for name in pins("constraints.txt")}
    assert all(written.get(canonicalize_name(name), name) == name for name in pins("constraints-lowest.txt"))


def test_pandas_stays_below_3_which_forecasting_libraries_need():
    assert TESTED["pandas"] < Version("3")


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_no_python_from_311_on_is_excluded(python):
    assert python in SpecifierSet(PROJECT["requires-python"])
    assert all(r.marker is None for r in OF_USERS)
