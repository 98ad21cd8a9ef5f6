"""Every cell at one shape: over its input projection, beside torch's LSTM, and beside other libraries' layers."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from importlib import import_module

import torch
from torch import Tensor, nn
from torch.func import functional_call

from benchmarks.contenders import Contender, Expected, Leaves, Setting
from benchmarks.layers import TORCHS_LSTM, VARIANTS, Ours, flat, ours, products_alone, products_of, torch_layer
from benchmarks.measure import BOTH, Bench
from benchmarks.peers import Peer, leave_out_missing
from benchmarks.record import Count
from benchmarks.sizes import Sizes
from gatedrnn.verify.tolerances import Tolerance

SECTION = "family"
PARAMETERS = "parameters of a layer"
OTHER_STEPS = 128
"""The most steps that layers of other libraries run: in a loop each step takes as long as any other, and their time is
multiplied by how many times as many there are."""
FURTHER = ("slstm, 4 heads",)
"""Variants of cells that are measured too."""
TURNING = ("lru", "block-orthogonal")
"""Cells that turn their state."""
SLACK_OF_TURNING = Tolerance(0.1, 1.0)
"""Their slack in float32; in float64 they pass the gate without any."""
THEIR_OWN = Tolerance(1e-3, 1e-2)
"""Slack of layers whose weights are their own, and whose sums may grow as they like."""
HEADS = 4
"""Heads of the sLSTM and the RG-LRU of other libraries, as in their examples."""

TORCHRECURRENT = Peer("torchrecurrent", "torchrecurrent", needs_gpu=False)
SRU = Peer("sru", "sru", needs_gpu=False)
XLSTM = Peer("xlstm", "xlstm", needs_gpu=False)
TRANSFORMERS = Peer("transformers", "transformers", needs_gpu=False)
FAMILY_PEERS = (TORCHRECURRENT, SRU, XLSTM, TRANSFORMERS)


def family(bench: Bench, sizes: Sizes, cells: Sequence[str], seconds: float) -> None:
    """All cells and the layers of other libraries in turn."""
    leave_out_missing(bench, FAMILY_PEERS)
    for shape in sizes.family:
        setting = Setting(shape, bench.device)
        names = [*cells, *(name for name in FURTHER if VARIANTS[name].partition(":")[0] in cells)]
        layers = {name: ours(name, setting) for name in dict.fromkeys((*names, "lstm"))}
        contenders = [each for one in layers.values() for each in (_held(one), products_alone(one))]
        others = [(cell, one) for cell in cells for one in _others(cell, layers[cell])]
        pairs = [(name, products_of(name)) for name in names] + [(name, TORCHS_LSTM) for name in names]
        pairs += [(one.name, cell) for cell, one in others]
        bench.compare(
            SECTION, [*contenders, torch_layer(layers["lstm"]), *(one for _, one in others)], pairs, (BOTH,),
            seconds / len(sizes.family),
        )  # fmt: skip
        for name in names:
            count = sum(weight.numel() for weight in layers[name].layer.parameters())
            bench.findings.counts.append(Count(SECTION, PARAMETERS, name, shape, count, "numbers"))


def _held(own: Ours) -> Contender:
    """The contender; of a cell that turns its state in float64 too, for in float32 its angles lose digits with every
    step, and a number that is rounded to another sign mirrors all that comes after it."""
    if own.contender.name not in TURNING:
        return own.contender
    exact, x = deepcopy(own.layer).double(), own.contender.leaves["input"].detach().double().requires_grad_()
    leaves = {"input": x, **dict(exact.named_parameters())}
    twin = replace(own.contender, run=lambda: flat(exact(x)), leaves=leaves, precision=torch.float64)
    return replace(own.contender, slack=SLACK_OF_TURNING, in_float64=twin)


@dataclass(frozen=True)
class Other:
    """A layer of another library."""

    cell: str
    """Ours that it is held against."""
    name: str
    peer: Peer
    build: Callable[[int], nn.Module]
    """Make the layer of a width; called with (batch, time, width), it returns as much."""


def _others(cell: str, own: Ours) -> Iterator[Contender]:
    for other in OTHERS:
        if other.cell == cell and not other.peer.missing(own.contender.setting.device):
            with warnings.catch_warnings():  # of kernels for CUDA that they cannot build
                warnings.simplefilter("ignore")
                yield _alone(other, own.contender.setting)


def _alone(other: Other, setting: Setting) -> Contender:
    """Held to itself in float64: its weights are its own."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = other.build(setting.shape[2])
    batch, time, width = setting.shape
    steps = min(time, OTHER_STEPS)
    x = setting.input().detach()[:, :steps].clone().requires_grad_()
    exact = deepcopy(module).double()
    leaves: dict[str, Tensor] = {"input": x, **dict(module.named_parameters())}

    def formula(w: Leaves) -> list[Tensor]:
        return [functional_call(exact, {name: v for name, v in w.items() if name != "input"}, (w["input"],))]

    expected = Expected(formula, leaves, setting.normal(batch, steps, width))
    return Contender(other.name, setting, lambda: module(x), leaves, expected, slack=THEIR_OWN, times=time / steps)


class _First(nn.Module):
    """The output alone of a layer that returns its state too."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0]


def _torchrecurrent(kind: str) -> Callable[[int], nn.Module]:
    return lambda width: _First(getattr(import_module("torchrecurrent"), kind)(width, width, batch_first=True))


class _TimeFirst(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.transpose(0, 1))[0].transpose(0, 1)


def _sru(width: int) -> nn.Module:
    return _TimeFirst(import_module("sru").SRU(width, width, num_layers=1, layer_norm=False))


class _Projected(nn.Module):
    """An input projection and xLSTM's recurrence in plain torch, which is all that it has on a CPU."""

    def __init__(self, width: int) -> None:
        super().__init__()
        cell = import_module("xlstm.blocks.slstm.cell")
        settings = cell.sLSTMCellConfig(hidden_size=width, num_heads=HEADS, backend="vanilla", dtype="float32")
        self.projection, self.cell = nn.Linear(width, 4 * width, bias=False), cell.sLSTMCell(settings)

    def forward(self, x: Tensor) -> Tensor:
        found, _ = self.cell(self.projection(x))
        return found.transpose(1, 2).flatten(2)


class _RGLRU(nn.Module):
    """The recurrence of transformers' RecurrentGemma, from its own state each time."""

    def __init__(self, width: int) -> None:
        super().__init__()
        there = import_module("transformers.models.recurrent_gemma")
        settings = there.RecurrentGemmaConfig(hidden_size=width, lru_width=width, num_attention_heads=HEADS)
        modeling = import_module("transformers.models.recurrent_gemma.modeling_recurrent_gemma")
        self.layer = modeling.RecurrentGemmaRglru(settings)
        for parameter in self.layer.parameters():
            nn.init.normal_(parameter, std=0.1)

    def forward(self, x: Tensor) -> Tensor:
        self.layer.recurrent_states = None
        return self.layer(x, torch.arange(1, x.shape[1] + 1, device=x.device).expand(len(x), -1))


def _mamba(width: int) -> nn.Module:
    """The whole mixer, twice as wide inside and 16 states a channel, as its paper has it."""
    there = import_module("transformers.models.mamba")
    modeling = import_module("transformers.models.mamba.modeling_mamba")
    return modeling.MambaMixer(there.MambaConfig(hidden_size=width), layer_idx=0)


OTHERS = (
    *(
        Other(cell, f"torchrecurrent {kind}", TORCHRECURRENT, _torchrecurrent(kind))
        for cell, kind in {
            "janet": "JANET", "mgu": "MGU", "lstm-peephole": "PeepholeLSTM", "indrnn": "IndRNN",
        }.items()
    ),
    Other("sru", "SRU of its authors", SRU, _sru),
    Other("slstm", "xlstm sLSTM, plain torch", XLSTM, _Projected),
    Other("rg-lru", "transformers RecurrentGemma RG-LRU", TRANSFORMERS, _RGLRU),
    Other("mingru", "transformers Mamba mixer", TRANSFORMERS, _mamba),
)  # fmt: skip
"""Each beside the cell that it is, or that it comes nearest to."""
