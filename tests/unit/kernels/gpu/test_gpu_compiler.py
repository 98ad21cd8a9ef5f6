"""Triton's compiler, which refuses what its interpreter runs, takes every kernel; no device is needed for that.

As a script: compile, for the GPU of that architecture, the kernels that calls with these tensors would start.
"""

import os
import subprocess
import sys
from itertools import product

import pytest
import torch

from gatedrnn.cells import MinGRUEquations, NormalizedLSTMEquations
from gatedrnn.kinds import kernel_of
from gatedrnn.kinds.scan.definition import BARE, ScanInputs, ScanUpstream
from gatedrnn.kinds.scan.rows import bare_tiles

triton = pytest.importorskip("triton", reason="triton is not installed")
gpu = pytest.importorskip("gatedrnn.kinds.scan.gpu")
COMPILED = MinGRUEquations, NormalizedLSTMEquations
"""Compile without any option, and with all of them."""
POINTERS = {torch.bfloat16: "*bf16", torch.float32: "*fp32", torch.uint8: "*u8"}


def compile_only(tuner, *arguments, grid, warmup, **names):
    """Take the place of a launch with its first configuration, with what a launch would derive from the arguments."""
    configuration = tuner.configs[0]
    given = dict(zip(tuner.arg_names, arguments, strict=False)) | names | configuration.kwargs
    types, constants, divisible = {}, {}, {}
    for i, parameter in enumerate(tuner.fn.params):
        name, value = parameter.name, given[parameter.name]
        specialised = isinstance(value, int) and not parameter.do_not_specialize
        if parameter.is_constexpr or value is None or (specialised and value == 1):
            types[name], constants[name] = "constexpr", value
        elif isinstance(value, torch.Tensor):
            types[name], divisible[i,] = POINTERS[value.dtype], [["tt.divisibility", 16]]
        else:
            types[name] = "i32" if -(1 << 31) <= value < 1 << 31 else "i64"
            if specialised and value % 16 == 0:
                divisible[i,] = [["tt.divisibility", 16]]
    source = triton.compiler.ASTSource(tuner.fn, types, constants, divisible)
    target = triton.backends.compiler.GPUTarget("cuda", int(sys.argv[1]), 32)
    compiled = triton.compile(source, target=target, options={"num_warps": configuration.num_warps})
    assert compiled.asm["cubin"]
    print(tuner.fn.fn.__name__, names["CELL"].split()[0], flush=True)


def compile_calls(dtype, channels, cell, full):
    """Start both directions of the bare scan and of a cell's, with all options or with none."""
    series, states = torch.zeros(2, 128, channels, dtype=dtype), torch.zeros(2, channels)
    flags = torch.zeros(2, 128, dtype=torch.bool)
    h0, mask, *cut = (states, flags, flags, states[0].clone()) if full else (None,) * 4
    for tiles in (bare_tiles(), kernel_of(cell, "cuda").program):
        bare = tiles is bare_tiles()
        x, drive = (series, series.clone()) if bare else (series.repeat(1, 1, tiles.gates), None)
        bias, output = x[0, 0].float() if full and not bare else None, None if full and not bare else series
        given = ScanInputs(x, drive, None, bias, h0, None if bare else mask, *cut, reverse=full)
        chunk = 64 if full else None
        gpu.scan(tiles, given, chunk=chunk)
        gpu.scan_gradient(tiles, ScanUpstream(series, states, series, output, True), given, chunk=chunk)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["80", "90", "100"])
def test_every_kernel_compiles_down_to_machine_code(tmp_path, architecture):
    environment = os.environ | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    run = subprocess.run([sys.executable, __file__, architecture], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    cells = BARE, *(cell.name for cell in COMPILED)
    assert {tuple(line.split()) for line in run.stdout.splitlines()} == set(product(("_scan", "_scan_gradient"), cells))


if __name__ == "__main__":
    triton.runtime.autotuner.Autotuner.run = compile_only
    few, all_options = COMPILED
    compile_calls(torch.bfloat16, 64, few(), full=False)
    compile_calls(torch.float32, 5, all_options(), full=True)
