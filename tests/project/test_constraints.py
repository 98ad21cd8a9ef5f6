"""The versions that pyproject.toml promises are those that the two files of constraints install."""

import tomllib

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version
from pages import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def pins(file):
    lines = (ROOT / file).read_text().splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def versions(file):
    return {canonicalize_name(name): Version(version) for name, version in pins(file).items()}


def requirements(*lists):
    found = [Requirement(line) for lines in lists for line in lines]
    return [requirement for requirement in found if requirement.name != PROJECT["name"]]


TESTED = versions("constraints.txt")
LOWEST = TESTED | versions("constraints-lowest.txt")
OF_USERS = requirements(PROJECT["dependencies"], EXTRAS["train"], EXTRAS["export"])


def test_every_tested_version_lies_in_its_range_on_every_python():
    listed = OF_USERS + requirements(*(EXTRAS[extra] for extra in EXTRAS if extra != "gpu-test"))
    assert [str(one) for one in listed if TESTED[canonicalize_name(one.name)] not in one.specifier] == []
    assert TESTED["pandas"] < Version("3"), "forecasting libraries need it"
    assert all(python in SpecifierSet(PROJECT["requires-python"]) for python in ("3.11", "3.12", "3.13"))
    assert [str(one) for one in OF_USERS if one.marker is not None] == []


def test_the_lowest_versions_are_the_lower_ends_of_the_ranges():
    for requirement in OF_USERS:
        if requirement.name == "torch":  # one CPU build
            continue
        lowest = LOWEST[canonicalize_name(requirement.name)]
        end = next(Version(part.version) for part in requirement.specifier if part.operator == ">=")
        # 5.14 is 5.14.0, or the first release of 5.14 that fits.
        assert lowest in requirement.specifier and lowest.release[: len(end.release)] == end.release, str(requirement)


def test_a_package_in_both_files_is_spelt_alike():
    """`make test-lowest` puts one line in the place of the other by the name as it is written."""
    written = {canonicalize_name(name): name for name in pins("constraints.txt")}
    assert all(written.get(canonicalize_name(name), name) == name for name in pins("constraints-lowest.txt"))
