"""Triton's compiler, which refuses what its interpreter runs, takes every kernel; no device is needed for that."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="triton is not installed")


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["80", "90"])
def test_every_kernel_compiles_down_to_machine_code(tmp_path, architecture):
    environment = os.environ | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    script = Path(__file__).with_name("compile_kernels.py")
    run = subprocess.run([sys.executable, script, architecture], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    kernels = {line.split()[0] for line in run.stdout.splitlines()}
    assert kernels == {"_scan", "_scan_gradient", "_gated_scan", "_gated_scan_gradient"}
