"""Gates and scan in one kernel: a registered op that keeps the projection and the output, and nothing else."""

import pytest
import torch
from covering import over
from kernel_cells import FLAGS, SCAN_KERNEL, by_channel, flags_of
from kernel_cells import SCAN_KERNELS as CELLS
from layer_laws import EQUATIONS, SCAN_CELLS, layer_of, series
from paths import axis

from gatedrnn import MinGRU
from gatedrnn.errors import BackendUnavailable
from gatedrnn.ops.gated_scan import gated_scan

FUSED = axis(EQUATIONS, [name for name in SCAN_CELLS if name != "own"])


@pytest.mark.usefixtures("torchs_compiler")
@over(kernel=SCAN_KERNEL)
def test_the_op_is_registered_as_torch_wants_it(kernel):
    cell, h0 = CELLS[kernel], torch.randn(2, 3, requires_grad=True)
    projected = torch.randn(2, 5, 3 * len(cell.projections), requires_grad=True)
    for biased in (False, True):
        bias = by_channel(cell, 3, torch.float32, biased)
        bias = None if bias is None else bias.requires_grad_()
        flags = flags_of(FLAGS[-biased], 2, 5)
        reset_state = torch.randn(3, requires_grad=True) if flags else None
        every = projected, bias, h0, flags.get("mask"), flags.get("resets"), reset_state, kernel, biased
        torch.library.opcheck(gated_scan, every)


@over(name=FUSED, names=(FLAGS[0], FLAGS[-1]))
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


def test_what_stands_between_gates_and_scan_takes_the_kernel_away_and_runs_on_says_so():
    plain = MinGRU(3, 4)
    assert plain.backends == ("reference", "native") and plain.runs_on().name.startswith("one kernel")
    zoned, dropped = MinGRU(3, 4, zoneout=0.1), MinGRU(3, 4, state_dropout=0.1)
    assert "zoneout" in zoned.runs_on().reason and zoned.runs_on().name.startswith("one linear_scan")
    assert "state_dropout" in dropped.runs_on().reason and dropped.runs_on(False).name.startswith("one kernel")
    assert dropped.training, "to ask changes no mode"
    with pytest.raises(BackendUnavailable, match="'torch' cannot run this MinGRU; choose one of auto, reference, nat"):
        zoned.backend = "torch"


def test_a_backend_that_does_not_exist_is_refused_by_its_name():
    layer = MinGRU(3, 4)
    with pytest.raises(BackendUnavailable, match="backend 'nonsense' cannot run this"):
        layer.backend = "nonsense"
    assert layer.backend == "auto"
    for backend in ("auto", *layer.backends):
        layer.backend = backend
        assert torch.nn.Module.__getattribute__(layer, "backend") == backend
