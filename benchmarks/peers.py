"""Other libraries beside our layers and our bare scan, where they are installed; none of them is a dependency."""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.contenders import Contender, Expected, Formula, Leaves, Setting
from benchmarks.layers import Ours, ours, run_equations
from benchmarks.measure import BOTH, FORWARD, Bench
from benchmarks.memory import count_peaks
from benchmarks.sections import compare_scans, numbers, scanned
from benchmarks.sizes import Sizes
from gatedrnn import MinGRU
from gatedrnn.cells import from_min_gru_pytorch
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


SECTION = "peers"
MIN_GRU_PYTORCH = Peer("minGRU-pytorch", "minGRU_pytorch", needs_gpu=False)
MINGRU_SCANS = Peer("mingru-scans", "mingru", needs_gpu=False)
ACCELERATED_SCAN = Peer("accelerated-scan", "accelerated_scan.scalar", needs_gpu=True)
FLASH_LINEAR_ATTENTION = Peer("flash-linear-attention", "fla.ops.hgrn", needs_gpu=True)
PEERS = (MIN_GRU_PYTORCH, MINGRU_SCANS, ACCELERATED_SCAN, FLASH_LINEAR_ATTENTION)
"""Peers in the order of the report."""

PEER_LAYERS = {
    "mingru": ("minGRU-pytorch minGRU", "mingru-scans MinGRU"),
    "minlstm": ("minGRU-pytorch minLSTM",),
}
"""Layers of peers by the cell of ours that each is held against."""
PEER_SCANS = (
    "mingru-scans linear_scan", "accelerated-scan scalar", "flash-linear-attention fused_recurrent_hgrn",
    "flash-linear-attention chunk_hgrn",
)  # fmt: skip

LOG_SPACE_GRADIENTS = 50.0
"""How much further off than the states the gradients of a scan over logarithms may be."""
START_OF_MINGRU_SCANS = 0.5
"""The state before the first step of its MinGRU."""


def peers(bench: Bench, sizes: Sizes, cells: Sequence[str], seconds: float) -> None:
    """Our layers and our bare scan beside those of other libraries, and the peaks of the layers."""
    leave_out_missing(bench, PEERS)
    held = [cell for cell in cells if cell in PEER_LAYERS]
    pairs = [(peer, cell) for cell in held for peer in PEER_LAYERS[cell]]
    work = sum(map(numbers, sizes.layers))
    for shape in sizes.layers:
        contenders = (each for cell in held for each in with_peers(cell, Setting(shape, bench.device)))
        bench.compare(SECTION, contenders, pairs, (FORWARD, BOTH), 0.8 * seconds * numbers(shape) / work)
    compare_scans(bench, SECTION, sizes, 0.2 * seconds, peer_scans, PEER_SCANS)
    for shape in sizes.memory:
        count_peaks(bench, SECTION, held, Setting(shape, bench.device), with_peers)


def leave_out_missing(bench: Bench, peers: Sequence[Peer]) -> None:
    """Say which of them cannot be measured here."""
    for peer in peers:
        if why := peer.missing(bench.device):
            bench.leave_out(peer.package, why)


def with_peers(cell: str, setting: Setting) -> list[Contender]:
    """Our layer, and those that are held against it."""
    own = ours(cell, setting)
    return [own.contender, *peer_layers(own)]


def peer_layers(of: Ours) -> Iterator[Contender]:
    """Layers of other libraries with the gate weights of ours."""
    cell, device = of.contender.name, of.contender.setting.device
    if not MIN_GRU_PYTORCH.missing(device):
        yield _min_gru_pytorch(of)
    if cell == "mingru" and not MINGRU_SCANS.missing(device):
        yield _mingru_scans(of)


def peer_scans(own: Contender) -> Iterator[Contender]:
    """Bare scans of other libraries over the decay and drive of ours; each in the layout that it wants."""
    setting, decay, drive, upstream = own.setting, own.leaves["decay"], own.leaves["drive"], own.expected.upstream

    def contender(name: str, run: Callable[[], Tensor], leaves: Leaves, held_to: Expected) -> Contender:
        return Contender(name, setting, run, leaves, held_to, precision=decay.dtype)

    if not MINGRU_SCANS.missing(setting.device):
        scan = import_module("mingru").linear_scan
        yield contender("mingru-scans linear_scan", lambda: scan(decay, drive)[1], own.leaves, own.expected)
    if not ACCELERATED_SCAN.missing(setting.device):
        scalar = import_module("accelerated_scan.scalar").scan
        # (batch, channels, time), contiguous.
        a, b = (x.detach().transpose(1, 2).contiguous().requires_grad_() for x in (decay, drive))
        turned = Expected(
            lambda leaves: [scanned(leaves["decay"].transpose(1, 2), leaves["drive"].transpose(1, 2)).transpose(1, 2)],
            {"decay": a, "drive": b}, None if upstream is None else upstream.transpose(1, 2),
        )  # fmt: skip
        yield contender("accelerated-scan scalar", lambda: scalar(a, b), {"decay": a, "drive": b}, turned)
    if not FLASH_LINEAR_ATTENTION.missing(setting.device):
        hgrn = import_module("fla.ops.hgrn")
        logs = decay.detach().log().requires_grad_()
        leaves = {"log decay": logs, "drive": drive}
        held_to = Expected(lambda w: [scanned(w["log decay"].exp(), w["drive"])], leaves, upstream)
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

    def formula(w: Leaves) -> list[Tensor]:
        return run_equations(plain, {"weight_ih_l0": w[f"{weight}.weight"]}, w["input"])

    return _over_logarithms(f"minGRU-pytorch {name}", of, module, formula)


def _mingru_scans(of: Ours) -> Contender:
    """Its MinGRU: two linear maps, the scan over logarithms, and a state that starts at 0.5; without biases too."""
    layer = of.layer
    module = import_module("mingru").MinGRU(layer.input_size, layer.hidden_size, bias=False)
    candidate, update = layer.weight_ih_l0.chunk(2)
    module.load_state_dict({"linear_h.weight": candidate, "linear_z.weight": update})

    plain = MinGRU(layer.input_size, layer.hidden_size, bias=False)

    def formula(w: Leaves) -> list[Tensor]:
        weight = torch.cat([w[f"linear_{gate}.weight"] for gate in ("h", "z")])
        start = w["input"].new_full((len(w["input"]), layer.hidden_size), START_OF_MINGRU_SCANS)
        return run_equations(plain, {"weight_ih_l0": weight}, w["input"], start)

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
