"""Gates and scan in one kernel: a registered op that keeps the projection and the output, and nothing else."""

import pytest
import torch
from kernel_cells import SCAN_KERNELS as CELLS
from kernel_cells import by_channel
from layer_laws import SCAN_CELLS, layer_of, series
from tolerances import assert_equal_within
from torch import nn

from gatedrnn import MinGRU, RecurrentLayer
from gatedrnn.cells.mingru import MinGRUEquations
from gatedrnn.errors import BackendUnavailable
from gatedrnn.ops.gated_scan import gated_scan

FUSED = [name for name in SCAN_CELLS if name != "own"]
FLAGS = [(), ("mask",), ("resets",), ("mask", "resets")]


def flags_of(names, batch=3, steps=7):
    given = {"mask": torch.rand(batch, steps) < 0.7, "resets": torch.rand(batch, steps) < 0.3}
    return {name: given[name] for name in names}


@pytest.mark.parametrize(
    "kernel, names", [(kernel, FLAGS[-1]) for kernel in CELLS] + [(next(iter(CELLS)), names) for names in FLAGS[:-1]]
)
def test_the_op_is_registered_as_torch_wants_it(kernel, names):
    size = 3 * len(CELLS[kernel].projections)
    projected = torch.randn(2, 5, size, requires_grad=True)
    bias = by_channel(CELLS[kernel], 3, torch.float32, biased="mask" not in names)
    h0, flags = torch.randn(2, 3, requires_grad=True), flags_of(names, 2, 5)
    torch.library.opcheck(
        gated_scan,
        (
            projected,
            None if bias is None else bias.requires_grad_(),
            h0,
            flags.get("mask"),
            flags.get("resets"),
            torch.randn(3, requires_grad=True) if "resets" in names else None,
            kernel,
            "resets" in names,
        ),
    )


@pytest.mark.parametrize("name", FUSED)
@pytest.mark.parametrize("names", FLAGS, ids=str)
@pytest.mark.parametrize("with_state", [False, True])
def test_the_second_derivative_is_that_of_the_torch_form(name, names, with_state):
    layer, x, flags = layer_of(name), series().requires_grad_(), flags_of(names)
    hx = series(1, 3, 4).requires_grad_() if with_state else None
    found = {}
    for backend in ("native", "reference"):
        layer.backend = backend
        output, last = layer(x, hx, **flags)
        inputs = [x, *layer.parameters(), *([hx] if with_state else [])]
        loss = (output**2).sum() + (last**3).sum()
        # An initial state that nothing began with has no slope.
        slopes = torch.autograd.grad(loss, inputs, create_graph=True, materialize_grads=True)
        found[backend] = torch.autograd.grad(sum((s**2).sum() for s in slopes), inputs, materialize_grads=True)
    for got, want in zip(*found.values(), strict=True):
        assert_equal_within(got, want, torch.float64, "second derivative", gradient=True)


@pytest.mark.parametrize("name", FUSED)
@pytest.mark.parametrize("names", FLAGS, ids=str)
def test_nothing_of_the_size_of_the_series_is_kept_but_projection_and_output(name, names):
    layer, x = layer_of(name, 3, 16), series(3, 64, 3)
    kept = {}

    def keep(tensor):
        if tensor.numel() >= 3 * 64 * 16:
            kept[tensor.untyped_storage().data_ptr()] = tensor.shape
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output, _ = layer(x, **flags_of(names, 3, 64))
    kept.pop(output.untyped_storage().data_ptr(), None)
    assert list(kept.values()) == [(3, 64, 16 * len(layer.cell.projections))]


class Inverted(MinGRUEquations):
    """Equations derived from a cell that has a kernel, which is not theirs."""

    name = "inverted"

    def coefficients(self, *projected):
        decay, drive = super().coefficients(*projected)
        return 1 - decay, drive


class InvertedLayer(RecurrentLayer):
    """Its layer."""

    cell_class = Inverted


def test_a_derived_cell_does_not_run_on_the_kernel_of_the_cell_it_derives_from():
    layer = InvertedLayer(3, 4, batch_first=True, dtype=torch.float64)
    assert "no kernel" in layer.runs_on().reason
    x, state, outputs = series(), None, []
    whole, _ = layer(x)
    for x_t in x.unbind(1):
        output, state = layer.step(x_t, state)
        outputs.append(output)
    assert_equal_within(torch.stack(outputs, 1), whole, torch.float64, "output")


def test_what_stands_between_gates_and_scan_takes_the_kernel_away_and_runs_on_says_so():
    plain = MinGRU(3, 4)
    assert plain.backends == ("reference", "native") and plain.runs_on().name.startswith("one kernel")
    zoned, dropped = MinGRU(3, 4, zoneout=0.1), MinGRU(3, 4, state_dropout=0.1)
    assert "zoneout" in zoned.runs_on().reason and zoned.runs_on().name.startswith("one linear_scan")
    assert "state_dropout" in dropped.runs_on().reason and dropped.runs_on(False).name.startswith("one kernel")
    assert dropped.training, "to ask changes no mode"
    with pytest.raises(BackendUnavailable, match="'torch' cannot run this MinGRU; choose one of auto, reference, nat"):
        zoned.backend = "torch"


@pytest.mark.parametrize("name", ["lstm", "gru", "mgu", "mingru"])
def test_a_backend_that_does_not_exist_is_refused_by_its_name(name):
    layer = layer_of(name)
    with pytest.raises(BackendUnavailable, match="backend 'nonsense' cannot run this"):
        layer.backend = "nonsense"
    assert layer.backend == "auto"
    for backend in ("auto", *layer.backends):
        layer.backend = backend
        assert nn.Module.__getattribute__(layer, "backend") == backend
