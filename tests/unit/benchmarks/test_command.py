"""`python -m benchmarks` prints what it measured, keeps it, and fails when a result is wrong."""

import io
import json
import sys
from contextlib import redirect_stdout
from dataclasses import fields
from pathlib import Path

import pytest
import small_bench
from pages import ROOT
from pydantic import TypeAdapter
from small_bench import SHAPE

from benchmarks import __main__ as command
from benchmarks import measure, memory, record, sizes
from benchmarks.bars import bars
from benchmarks.record import DEFAULT, BarResult, BenchRecord
from benchmarks.suite import SECTIONS
from gatedrnn import MinGRU
from gatedrnn.timing import Samples

GUIDE = ROOT / "benchmarks" / "README.md"
KEPT = sorted((ROOT / "results").rglob("bench.json"))


@pytest.fixture(autouse=True)
def in_an_empty_folder(small, tmp_path, monkeypatch):
    """Small sizes, no processes, and a folder to write in."""
    monkeypatch.setattr(memory, "peaks", lambda cells, setting, members: {"mingru": 2.0**20, "nn.LSTM": None})
    monkeypatch.chdir(tmp_path)


def exit_code(*arguments):
    """The exit code of the command."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "argv", ["benchmarks", *arguments])
        try:
            command.main()
        except SystemExit as stop:
            return stop.code
    return 0


def record_in(folder="runs/bench"):
    return json.loads((Path(folder) / "bench.json").read_text())


@pytest.fixture(scope="module")
def default_run(tmp_path_factory):
    """The output of a default run in which everything runs once, its record and its page."""
    said = io.StringIO()

    def interleave(actions, seconds, synchronize):
        for action in actions.values():
            action()
        return {key: Samples({0: 1.0}, 1) for key in actions}

    with pytest.MonkeyPatch.context() as patched, redirect_stdout(said):
        patched.setitem(sizes.SIZES, "cpu", small_bench.SIZES)
        patched.setattr(measure, "interleave", interleave)
        patched.setattr(memory, "peaks", lambda cells, setting, members: {"mingru": 2.0**20, "nn.LSTM": None})
        patched.chdir(tmp_path_factory.mktemp("default"))
        assert exit_code() == 0
        return " ".join(said.getvalue().split()), record_in(), Path("runs/bench/report.html").read_text()


def test_everything_is_measured_printed_and_kept_and_the_whole_default_run_is_timed_and_no_other(
    default_run, timed_once
):
    said, kept, page = default_run
    for title in (
        "Layers, forward:", "Layers, forward+backward, bfloat16 autocast:", "The bare scan, forward:", "Loop cells,",
        "Memory, kept for backward:", "Memory, peak of forward+backward: MiB", "Streaming, one token:",
        "Time against length,", "every result is right",
        "left out: memory: peak of forward+backward of nn.LSTM: this system does not tell a process its peak",
    ):  # fmt: skip
        assert title in said, title
    assert kept["passed"] is True and not kept["wrong"]
    assert {row["section"] for row in kept["timings"]} == set(DEFAULT) - {"memory"}
    assert {row["section"] for row in kept["counts"]} == {"memory", "run"}
    assert {"section": "memory", "mode": memory.PEAK, "contender": "mingru", "shape": list(SHAPE), "value": 1.0,
            "unit": "MiB"} in kept["counts"]  # fmt: skip
    assert "<h2>Time against length</h2>" in page and "https://" not in page.split("<script")[0]
    assert exit_code("--only", "step", "--seconds", "0.1") == 0
    for found, held in ((kept, True), (record_in(), None)):
        bars = [bar["holds"] for bar in found["bars"] if bar["measure"] == "whole default run, seconds"]
        assert bars == [held]


def test_what_is_kept_has_the_form_that_the_guide_describes(default_run):
    _, kept, _ = default_run
    rows = {
        "timings": record.Timing, "ratios": record.Quotient, "counts": record.Count,
        "left_out": record.LeftOut, "bars": BarResult,
    }  # fmt: skip
    for name, kind in rows.items():
        wanted = [field.name for field in fields(kind)]
        assert kept[name] and all(list(row) == wanted for row in kept[name]), name
    names = "schema passed command settings timings ratios counts wrong left_out bars measured"
    assert list(kept) == names.split() and kept["schema"] == record.VERSION
    assert list(kept["measured"]) == ["date", "environment", "threads", "gpu"]
    assert kept["settings"]["sizes"]["layers"] == [list(SHAPE)] and kept["settings"]["seconds"] == record.SECONDS
    assert [bar["measure"] for bar in kept["bars"]] == [bar.measure for bar in bars()]
    guide = GUIDE.read_text()
    names = {field.name for kind in (*rows.values(), record.Disagreement) for field in fields(kind)}
    assert f"schema {record.VERSION}" in guide and [n for n in (*kept, *names) if f"`{n}`" not in guide] == []


def test_only_what_is_asked_for_is_measured_where_it_is_asked_for(capsys, timed_once):
    arguments = "--only layers loops --cells mingru mgu --shapes 1x3x2 3x2x1 --seconds 0.1 --output elsewhere"
    assert exit_code(*arguments.split()) == 0
    timings = record_in("elsewhere")["timings"]
    assert {row["section"] for row in timings} == {"layers", "loops"}
    assert {tuple(row["shape"]) for row in timings} == {(1, 3, 2), (3, 2, 1)}
    contenders = {row["contender"] for row in timings}
    assert "minlstm" not in contenders and "mgu by python loop" in contenders
    assert not Path("elsewhere/report.html").exists() and "time against length" not in capsys.readouterr().out


def test_a_wrong_result_gets_no_time_and_exit_code_1(capsys, monkeypatch, timed_once):
    forward = MinGRU.forward

    def off(*arguments, **keywords):
        output, state = forward(*arguments, **keywords)
        return output * 1.5, state

    monkeypatch.setattr(MinGRU, "forward", off)
    assert exit_code("--only", "layers", "--cells", "mingru", "minlstm", "--seconds", "0.1") == 1
    said, kept = " ".join(capsys.readouterr().out.split()), record_in()
    assert "WRONG: layers, mingru at (2, 6, 4): output 0 off by" in said and "results are WRONG" in said
    assert kept["passed"] is False and "mingru" not in {row["contender"] for row in kept["timings"]}
    compared = [row["numerator"] for row in kept["ratios"]]
    assert "minlstm" in compared and "mingru" not in compared
    assert {row["contender"] for row in kept["wrong"]} == {"mingru"}
    assert kept["wrong"][0]["what"] == "output 0" and kept["wrong"][0]["error"] > kept["wrong"][0]["allowed"]


def test_bad_usage_gets_one_line_and_exit_code_2(monkeypatch, capsys):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for arguments, words in {
        "--only nothing": "nothing", "--cells mingur": "did you mean 'mingru'", "--quick": "--quick",
        "--shapes 8x1024": "--shapes: '8x1024' must be batch, time and width, as 8x1024x256",
        "--shapes 8x0x4": "every size must be at least 1", "--shapes axbxc": "must be batch, time and width",
        "--seconds 0": "must be above 0",
        "--device cuda": "--device cuda: this torch sees no CUDA device; use --device cpu",
    }.items():  # fmt: skip
        assert exit_code(*arguments.split()) == 2
        error = capsys.readouterr().err
        assert error.startswith("benchmarks: ") and error.count("\n") == 1 and words in error


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.parent.name)
def test_a_kept_record_opens_and_has_sections_of_the_command(path):
    record = TypeAdapter(BenchRecord).validate_json(path.read_bytes())
    assert record.passed and record.timings and set(record.settings.only) <= set(SECTIONS)
