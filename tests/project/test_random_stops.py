"""Commands that are stopped at random moments leave nothing half-written, and go on to the same bits."""

import json
import subprocess
import sys

import pytest
from pages import ROOT


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_stops_at_random_moments_leave_nothing_half_written_and_go_on_to_the_same_bits(tmp_path):
    command = [sys.executable, ROOT / "tools" / "random_stops.py", "--only", "train-texts", "train-series", "predict"]
    done = subprocess.run(
        [*command, "--stops", "12", "--output", tmp_path / "stops.json"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(json.loads((tmp_path / "stops.json").read_text())["stops"]) == 12
