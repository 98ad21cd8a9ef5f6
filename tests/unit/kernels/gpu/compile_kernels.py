"""Compile, for a GPU that need not be here, the kernels that calls with these tensors would start."""

import sys

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.autotuner import Autotuner

from gatedrnn.cells import MinGRUEquations, NormalizedLSTMEquations
from gatedrnn.codegen.scan_tile import tile_program
from gatedrnn.kernels import gpu

ARCHITECTURE = int(sys.argv[1])
TARGET = GPUTarget("cuda", ARCHITECTURE, 32)
POINTERS = {torch.bfloat16: "*bf16", torch.float32: "*fp32", torch.uint8: "*u8"}


def compile_only(tuner, *arguments, grid, warmup, **names):
    """In the place of a launch: its first configuration, with what a launch would derive from the arguments."""
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
            types[name] = "i32"
            if specialised and value % 16 == 0:
                divisible[i,] = [["tt.divisibility", 16]]
    source = ASTSource(tuner.fn, types, constants, divisible)
    compiled = triton.compile(source, target=TARGET, options={"num_warps": configuration.num_warps})
    assert compiled.asm["cubin"]
    print(tuner.fn.fn.__name__, name, flush=True)


def compile_calls(dtype, channels, cell, full):
    """Start both directions of both scans, with all options or with none."""
    series, states = torch.zeros(2, 128, channels, dtype=dtype), torch.zeros(2, channels)
    flags = torch.zeros(2, 128, dtype=torch.bool)
    h0, mask, resets, reset_state = (states, flags, flags, states[0].clone()) if full else (None,) * 4
    chunk = 64 if full else None
    gpu.scan(series, series, h0, resets, reset_state, full, chunk=chunk)
    gpu.scan_gradient(series, states, series, series, h0, resets, reset_state, full, chunk=chunk)
    projected = series.repeat(1, 1, cell.gates)
    bias, output = (projected[0, 0].float(), None) if full else (None, series)
    options = h0, mask, resets, reset_state, full
    gpu.gated_scan(cell, projected, bias, *options, chunk=chunk)
    gpu.gated_scan_gradient(cell, series, states, projected, bias, output, *options, chunk=chunk)


if __name__ == "__main__":
    Autotuner.run = compile_only
    compile_calls(torch.bfloat16, 64, tile_program(MinGRUEquations()), full=False)
    compile_calls(torch.float32, 5, tile_program(NormalizedLSTMEquations()), full=True)
