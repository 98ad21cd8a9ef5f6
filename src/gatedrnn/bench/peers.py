"""Other libraries at their public interface, where they are installed; none of them is a dependency."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from gatedrnn.bench.contenders import Contender, Expected, Formula, Setting, Weights
from gatedrnn.bench.layers import Ours, PlainScan, is_scan_cell, run_equations
from gatedrnn.cells import MinGRUEquations, from_min_gru_pytorch
from gatedrnn.verify.tolerances import LOG_SPACE_PER_STEP, Tolerance


class Peer(NamedTuple):
    """A library that is not ours."""

    package: str
    module: str
    needs_gpu: bool

    def missing(self, device: str) -> str | None:
        """Why it cannot be measured here; None if it can."""
        if self.needs_gpu and device != "cuda":
            return "has kernels for CUDA alone"
        parent, *_ = self.module.split(".")
        return None if find_spec(parent) else f"is not installed (pip install {self.package})"


MIN_GRU_PYTORCH = Peer("minGRU-pytorch", "minGRU_pytorch", needs_gpu=False)
MINGRU_SCANS = Peer("mingru-scans", "mingru", needs_gpu=False)
ACCELERATED_SCAN = Peer("accelerated-scan", "accelerated_scan.scalar", needs_gpu=True)
FLASH_LINEAR_ATTENTION = Peer("flash-linear-attention", "fla.ops.hgrn", needs_gpu=True)
PEERS = (MIN_GRU_PYTORCH, MINGRU_SCANS, ACCELERATED_SCAN, FLASH_LINEAR_ATTENTION)
"""In the order of the report."""

PEER_LAYERS = {
    "mingru": ("minGRU-pytorch minGRU", "mingru-scans MinGRU"),
    "minlstm": ("minGRU-pytorch minLSTM",),
}
"""By the cell of ours that each is held against."""
PEER_SCANS = (
    "mingru-scans linear_scan", "accelerated-scan scalar", "flash-linear-attention fused_recurrent_hgrn",
    "flash-linear-attention chunk_hgrn",
)  # fmt: skip

LOG_SPACE_GRADIENTS = 50.0
"""How much further off than the states the gradients of a scan over logarithms may be."""
START_OF_MINGRU_SCANS = 0.5
"""The state before the first step of its MinGRU."""


def peer_layers(of: Ours) -> Iterator[Contender]:
    """Layers of other libraries with the gate weights of ours."""
    cell, device = of.layer.cell.name, of.contender.setting.device
    if cell in ("mingru", "minlstm") and not MIN_GRU_PYTORCH.missing(device):
        yield _min_gru_pytorch(of)
    if cell == "mingru" and not MINGRU_SCANS.missing(device):
        yield _mingru_scans(of)
    assert is_scan_cell(cell), f"no other library has {cell}"


def peer_scans(setting: Setting, decay: Tensor, drive: Tensor, expected: Expected) -> Iterator[Contender]:
    """Bare scans of other libraries over the same decay and drive; each in the layout that it wants."""
    device = setting.device

    def contender(name: str, run: Callable[[], Tensor], leaves: dict[str, Tensor], held_to: Expected) -> Contender:
        return Contender(name, setting, run, leaves, held_to, precision=decay.dtype)

    if not MINGRU_SCANS.missing(device):
        scan = import_module("mingru").linear_scan
        yield contender(
            "mingru-scans linear_scan", lambda: scan(decay, drive)[1], {"decay": decay, "drive": drive}, expected
        )
    if not ACCELERATED_SCAN.missing(device):
        scalar = import_module("accelerated_scan.scalar").scan
        # (batch, channels, time), contiguous.
        a, b = (x.detach().transpose(1, 2).contiguous().requires_grad_() for x in (decay, drive))
        turned = Expected(
            lambda leaves: [_states(leaves["decay"].transpose(1, 2), leaves["drive"].transpose(1, 2)).transpose(1, 2)],
            {"decay": a, "drive": b}, None if expected.upstream is None else expected.upstream.transpose(1, 2),
        )  # fmt: skip
        yield contender("accelerated-scan scalar", lambda: scalar(a, b), {"decay": a, "drive": b}, turned)
    if not FLASH_LINEAR_ATTENTION.missing(device):
        hgrn = import_module("fla.ops.hgrn")
        logs = decay.detach().log().requires_grad_()
        leaves = {"log decay": logs, "drive": drive}
        held_to = Expected(lambda w: [_states(w["log decay"].exp(), w["drive"])], leaves, expected.upstream)
        for name in ("fused_recurrent_hgrn", "chunk_hgrn"):
            run = partial(_first_of, getattr(hgrn, name), drive, logs)
            yield contender(f"flash-linear-attention {name}", run, leaves, held_to)


def _first_of(operator: Callable[..., tuple[Tensor, ...]], *arguments: Tensor) -> Tensor:
    return operator(*arguments)[0]


def _min_gru_pytorch(of: Ours) -> Contender:
    """Its minGRU and minLSTM: no biases, and the scan over logarithms of the paper."""
    layer = of.layer
    name, weight = {"mingru": ("minGRU", "to_hidden_and_gate"), "minlstm": ("minLSTM", "to_hidden_and_f_i_gate")}[
        layer.cell.name
    ]
    module = getattr(import_module(f"minGRU_pytorch.{name}"), name)(layer.input_size)
    module.load_state_dict({f"{weight}.weight": layer.weight_ih_l0})
    plain = from_min_gru_pytorch(module)

    def formula(w: Weights) -> list[Tensor]:
        return run_equations(plain, {"weight_ih_l0": w[f"{weight}.weight"]}, w["input"])

    return _over_logarithms(f"minGRU-pytorch {name}", of, module, formula)


def _mingru_scans(of: Ours) -> Contender:
    """Its MinGRU: two linear maps, the scan over logarithms, and a state that starts at 0.5; without biases too."""
    layer = of.layer
    module = import_module("mingru").MinGRU(layer.input_size, layer.hidden_size, bias=False)
    candidate, update = layer.weight_ih_l0.chunk(2)
    module.load_state_dict({"linear_h.weight": candidate, "linear_z.weight": update})

    def formula(w: Weights) -> list[Tensor]:
        maps = (linear(w["input"], w[f"linear_{gate}.weight"]) for gate in ("h", "z"))
        decay, drive = MinGRUEquations().coefficients(*maps)
        return [PlainScan.apply(decay, drive, torch.full_like(drive[:, 0], START_OF_MINGRU_SCANS))]

    return _over_logarithms("mingru-scans MinGRU", of, module, formula)


def _over_logarithms(name: str, of: Ours, module: nn.Module, formula: Formula) -> Contender:
    """A scan over logarithms: its sum grows with every step, and so does what rounding takes from it.

    So that nothing wrong hides in the slack that this needs, the module is held to its formula in float64 too.
    """
    setting, x = of.contender.setting, of.contender.leaves["input"]
    module = module.to(setting.device)
    expected = Expected(formula, {"input": x, **dict(module.named_parameters())}, of.contender.expected.upstream)

    def contender(module: nn.Module, x: Tensor, in_float64: Contender | None) -> Contender:
        leaves = {"input": x, **dict(module.named_parameters())}
        slack = LOG_SPACE_PER_STEP * setting.shape[1] * torch.finfo(x.dtype).eps
        slacks = Tolerance(slack, LOG_SPACE_GRADIENTS * slack)
        return Contender(name, setting, lambda: module(x), leaves, expected, x.dtype, slacks, in_float64)

    exact = contender(deepcopy(module).double(), x.detach().double().requires_grad_(), None)
    return contender(module, x, exact)


def _states(decay: Tensor, drive: Tensor) -> Tensor:
    """All states, from zeros."""
    states: Tensor = PlainScan.apply(decay, drive, torch.zeros_like(drive[:, 0]))
    return states
