"""`tools/on_a_gpu.sh` writes one record of its parts, and says which of them failed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import gpu_record
import pytest
from pages import ROOT

SCRIPT = ROOT / "tools" / "on_a_gpu.sh"


def test_a_record_has_what_each_part_left_and_names_those_that_failed(tmp_path):
    for part in gpu_record.PARTS:
        (tmp_path / f"{part}.code").write_text("124" if part == "bench" else "0")
    counts = '<testsuite tests="3" failures="0" errors="0" skipped="1" time="1.5"/>'
    (tmp_path / "tests.xml").write_text(f"<testsuites>{counts}</testsuites>")
    (tmp_path / "first_calls.json").write_text('{"mingru": {"first": 2.0, "second": 0.1}}')
    record = tmp_path / "results" / "gpu" / "none.json"
    with pytest.raises(SystemExit) as ended:
        gpu_record.write("cpu", tmp_path, record)
    found = json.loads(record.read_text())
    assert ended.value.code == 1 and found["failed"] == {"bench": 124} and found["bench"] is None
    assert found["tests"] == {"tests": 3, "failures": 0, "errors": 0, "skipped": 1, "seconds": 1.5}
    assert found["first_calls_seconds"]["mingru"]["first"] == 2.0
    assert found["device"] == "none: a dry run on a CPU" and {"commit", "versions"} <= set(found["environment"])


def test_limits_of_the_parts_leave_the_whole_at_eight_minutes():
    parts = [line.split() for line in SCRIPT.read_text().splitlines() if line.startswith("run_part ")]
    assert [part for _, part, *_ in parts] == list(gpu_record.PARTS)
    assert sum(int(seconds) for _, _, seconds, *_ in parts) <= 470


@pytest.mark.slow
def test_a_dry_run_goes_through_every_part():
    pytest.importorskip("triton")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # the `python` of the script is this one
    done = subprocess.run(
        [SCRIPT, "none", "--dry-run"], capture_output=True, text=True, env={**os.environ, "PATH": path}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout[done.stdout.index("\n{") :])
    assert not found["failed"] and found["tests"]["tests"] > found["tests"]["skipped"]
    assert set(found["first_calls_seconds"]) == set(gpu_record.CELLS_CALLED)
    assert found["bench"]["passed"] and found["bench"]["settings"]["only"] == ["scan", "layers"]
