"""`python -m benchmarks` writes the record of `gatedrnn bench`; every bar stands for something that it measures."""

import json
import sys
from pathlib import Path
from typing import get_args

import pytest
from pages import ROOT
from pydantic import TypeAdapter
from small_bench import SHAPE, AskedBar
from small_benchmarks import SMALL_SUITE

from benchmarks import __main__ as command
from benchmarks.sizes import SIZES
from benchmarks.suite import SectionName, bars, suite
from gatedrnn.benchmarking import memory
from gatedrnn.benchmarking.record import BenchRecord
from gatedrnn.benchmarking.run import SUITE, Request, bench
from gatedrnn.registry import CELLS

KEPT = sorted((ROOT / "results").rglob("bench.json"))


def test_sections_are_those_that_the_command_line_knows_with_cells_that_there_are():
    assert tuple(suite().sections) == get_args(SectionName) and not set(suite().sections) & set(SUITE.sections)
    assert all(set(section.cells) <= set(CELLS) for section in suite().sections.values())


@pytest.mark.slow
def test_every_bar_of_a_cpu_is_measured(monkeypatch):
    """Bars are found at small sizes, by section, mode and names."""
    pytest.importorskip("minGRU_pytorch")
    monkeypatch.setattr(memory, "peaks", lambda cells, setting, members: {})
    found = bench(Request(only=("peers", "language", "drop-in", "few-steps"), seconds=0.1), SMALL_SUITE)
    assert not found.wrong and AskedBar.not_in(found, bars()) == []


def test_every_bar_is_at_a_size_of_its_device():
    for bar in bars():
        section, sizes = AskedBar.of(bar)[0][0], SIZES[bar.device]
        if section == "drop-in":
            assert bar.shape is None  # all of them
        elif section == "few-steps":
            assert bar.shape in sizes.few_steps
        elif section == "language":
            assert bar.shape in (sizes.softmax, (1, 1, sizes.stream[1]))
        else:
            assert bar.shape in (sizes.layers if bar.device == "cpu" else sizes.scan), bar.measure


def called(monkeypatch, *arguments):
    """The exit code of the command."""
    monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
    try:
        command.main()
    except SystemExit as stop:
        return stop.code
    return 0


def test_the_command_writes_the_record_of_the_other_command(monkeypatch, tmp_path, capsys, timed_once):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "suite", lambda compile: SMALL_SUITE)
    asked = ["--only", "language", "family", "--cells", "mingru", "--seconds", "0.1"]
    assert called(monkeypatch, *asked) == 0
    said, path = " ".join(capsys.readouterr().out.split()), Path("runs/benchmarks/bench.json")
    assert "The family, forward+backward: milliseconds" in said and "every result is right" in said
    record = TypeAdapter(BenchRecord).validate_json(path.read_bytes())
    assert record.passed and record.command == f"python -m benchmarks {' '.join(asked)}"
    assert {row.section for row in record.timings} == {"language", "family"} == set(record.settings.only)
    assert json.loads(path.read_text())["settings"]["sizes"]["family"] == [list(SHAPE)]


def test_bad_usage_gets_one_line_and_exit_code_2(monkeypatch, capsys):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for arguments, words in {
        "": "--only", "--only layers": "layers", "--only peers --cells mingur": "did you mean 'mingru'",
        "--only peers --shapes 8x": "must be batch, time and width", "--only peers --seconds 0": "must be above 0",
        "--only peers --device cuda": "this torch sees no CUDA device",
    }.items():  # fmt: skip
        assert called(monkeypatch, *arguments.split()) == 2
        error = capsys.readouterr().err
        assert error.startswith("benchmarks: ") and error.count("\n") == 1 and words in error


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.parent.name)
def test_a_kept_record_opens_and_has_sections_of_the_two_commands(path):
    record = TypeAdapter(BenchRecord).validate_json(path.read_bytes())
    assert record.passed and record.timings and set(record.settings.only) <= {*SUITE.sections, *suite().sections}
