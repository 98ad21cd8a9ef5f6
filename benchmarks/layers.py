"""Our layers and their references: their equations in plain torch, their products, torch's own layer, a loop."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import BackwardCFunction, FunctionCtx
from torch.nn.functional import linear

from benchmarks.contenders import Contender, Expected, Leaves, Setting
from gatedrnn.equations import Equations, Recurrent, output_of
from gatedrnn.kinds import kind_of
from gatedrnn.layers import RecurrentLayer
from gatedrnn.registry import CELLS, CellChoice
from gatedrnn.shapes import Hidden, Series, State
from gatedrnn.verify.tolerances import ROUNDED


class PlainScan(Function):
    """The states of h_t = a_t * h_(t-1) + b_t and their gradients by one plain loop each; axes as in `Series`."""

    @staticmethod
    def forward(ctx: FunctionCtx, decay: Series, drive: Series, h0: State) -> Series:
        states = iterated(decay, drive, h0)
        ctx.save_for_backward(decay, states, h0)
        return states

    @staticmethod
    def backward(ctx: BackwardCFunction, grad: Series) -> tuple[Series, Series, State]:
        saved: tuple[Tensor, ...] = ctx.saved_tensors
        decay, states, h0 = saved
        # delta_t = grad_t + a_(t+1) delta_(t+1), from the last step to the first.
        later = torch.cat([decay[:, 1:], torch.zeros_like(decay[:, :1])], dim=1)
        delta = iterated(later.flip(1), grad.flip(1), torch.zeros_like(h0)).flip(1)
        before = torch.cat([h0.unsqueeze(1), states[:, :-1]], dim=1)
        return delta * before, delta, decay[:, 0] * delta[:, 0]


def iterated(decay: Series, drive: Series, h0: State) -> Series:
    """Compute the states, a step at a time."""
    states, state = torch.empty_like(drive, memory_format=torch.contiguous_format), h0
    for a, b, into in zip(decay.unbind(1), drive.unbind(1), states.unbind(1), strict=True):
        state = torch.addcmul(b, a, state, out=into)
    return states


def run_equations(layer: RecurrentLayer, weights: Leaves, x: Series, *states: State) -> list[Tensor]:
    """Compute output and last states of one layer in one direction by its cell's equations alone. Differentiable.

    Args:
        layer: the cell and the sizes; its own parameters are not read.
        weights: parameters by the layer's names; others are ignored.
        states: states before the first step, each (batch, size); the initial ones if there are none.

    Returns:
        The results of the layer; states have an axis for the one layer.
    """
    cell: Any = layer.cell
    stored = {name.removesuffix("_l0"): weight for name, weight in weights.items()}
    named = layer._wrapper.read(stored, len(cell.projections))
    states = states or tuple(
        named["initial_state"].expand(len(x), -1) if "initial_state" in named else x.new_zeros(len(x), size)
        for size in layer.state_sizes()
    )
    read, states, last_input = layer._wrapper.concat_previous_input(x, states)
    projected = linear(read, named["weight_ih"], named.get("bias_ih")).chunk(len(cell.projections), dim=-1)
    if _scans(cell):
        diagonals = (named[f"weight_{name}"] for name in cell.diagonals)
        scanned: Tensor = PlainScan.apply(*cell.coefficients(*projected, *diagonals), states[0])
        output, states = output_of(cell, (scanned,), projected), (scanned[:, -1],)
    else:
        recurrent, outputs = Recurrent(cell.projections, named), []
        for step in zip(*(gate.unbind(1) for gate in projected), strict=True):
            states = cell.step(step, states, recurrent)
            outputs.append(output_of(cell, states, step))
        output = torch.stack(outputs, dim=1)
    return [output, *(state.unsqueeze(0) for state in (*states, *last_input))]


NEAR_KINK = 1e-5
"""The distance from 0 below which a candidate is drawn again: g has a kink there, and rounding decides the side."""
BEYOND_KINK = 4.0
"""The bias of candidates in bfloat16, which rounds too many of them across the kink to draw all again."""
TORCHS_LSTM = "nn.LSTM"
TORCHS_LAYERS = {TORCHS_LSTM: "lstm", "nn.GRU": "gru"}
"""Torch's layers, and the cells with the same equations."""
PYTHON_LOOP = "python-loop LSTM"
LOOP_STEPS = 512
"""The most steps that the loop runs; its time is scaled to all steps."""
VARIANTS = {"gru reset-before": "gru:reset_after=false", "slstm, 4 heads": "slstm:heads=4"}
"""Cells with options, by their names in tables."""


class Ours(NamedTuple):
    """A layer of ours as a contender, and the layer itself."""

    contender: Contender
    layer: RecurrentLayer


def products_of(cell: str) -> str:
    """Name the matrix products of a cell."""
    return f"products of {cell}"


def by_loop(cell: str) -> str:
    """Name the python loop of a cell."""
    return f"{cell} by python loop"


def step_of(title: str) -> str:
    """Name the mode that times a model's training steps."""
    return f"{title}, training step"


def over_floor(title: str) -> str:
    """Name the mode that has the ratios of a model's training steps to their floors."""
    return f"{title}, training step ÷ floor"


def is_scan_cell(name: str) -> bool:
    """Whether a cell's gates read the input alone, and each channel of its state is scanned by itself."""
    return _scans(CellChoice.parse(VARIANTS.get(name, name)).equations())


def _scans(cell: Equations) -> bool:
    return not kind_of(cell).facts(cell).iterates and cell.block_size == 1


def our_layer(name: str, width: int, device: str) -> RecurrentLayer:
    """Make a layer of a cell or variant with the same initialisation each time."""
    choice = CellChoice.parse(VARIANTS.get(name, name))
    options: dict[str, Any] = {**choice.options}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return CELLS[choice.name].layer(width, width, batch_first=True, **options).to(device)


def flat(result: tuple[Tensor, Hidden]) -> tuple[Tensor, ...]:
    """Flatten the results of a layer to (output, states …)."""
    output, state = result
    return (output, *state) if isinstance(state, tuple) else (output, state)


def as_hx(states: Sequence[Tensor]) -> Hidden:
    """Return states in the form of `hx`: a tuple, or the only tensor."""
    return tuple(states) if len(states) > 1 else states[0]


def ours(name: str, setting: Setting, autocast: bool = False) -> Ours:
    """Make a contender of a layer over whole sequences."""
    layer = our_layer(name, setting.shape[2], setting.device)
    if autocast and _has_kink(layer):
        with torch.no_grad():
            _candidate(layer, "bias_ih_l0").fill_(BEYOND_KINK)
    x = _input_for(layer, setting)
    leaves = {"input": x, **dict(layer.named_parameters())}
    expected = Expected(lambda w: run_equations(layer, w, w["input"]), leaves, _upstream(setting))
    precision: torch.dtype | str = ROUNDED if autocast else torch.float32
    contender = Contender(name, setting, lambda: flat(layer(x)), leaves, expected, precision, autocast=autocast)
    return Ours(contender, layer)


def products_alone(pair: Ours) -> Contender:
    """Make a contender of the input projection of all rows, all products of a scan cell."""
    contender, layer = pair
    x = contender.leaves["input"]
    if layer._wrapper.inputs > 1:  # its weights read the previous inputs too
        x = torch.cat([x] * layer._wrapper.inputs, dim=2).detach().requires_grad_()
    batch, time, features = x.shape
    projection = nn.Linear(features, layer.weight_ih_l0.shape[0], device=x.device)
    projection.load_state_dict({"weight": layer.weight_ih_l0, "bias": layer.get_parameter("bias_ih_l0")})
    leaves = {"input": x, **dict(projection.named_parameters())}
    upstream = contender.setting.normal(batch, time, layer.weight_ih_l0.shape[0])
    expected = Expected(lambda w: [linear(w["input"], w["weight"], w["bias"])], leaves, upstream)
    return Contender(
        products_of(contender.name), contender.setting, lambda: projection(x), leaves, expected, contender.precision,
        autocast=contender.autocast,
    )  # fmt: skip


class OneStep:
    """One step of one row of a layer, from a state.

    Args:
        name: the cell or variant.
        setting: its shape is (1, 1, width).
    """

    def __init__(self, name: str, setting: Setting) -> None:
        self.setting, self.layer = setting, our_layer(name, setting.shape[2], setting.device)
        self.x = setting.normal(*setting.shape)
        self.hx = as_hx([setting.normal(1, 1, size) for size in self.layer.state_sizes()])
        self.leaves = {"input": self.x, **named_states(self.hx), **dict(self.layer.named_parameters())}
        self.called = Expected(lambda w: after_a_step(self.layer, w), self.leaves, None)

    def call(self, name: str, layer: nn.Module) -> Contender:
        """Make a contender of a layer that is called with one step."""
        return Contender(name, self.setting, lambda: flat(layer(self.x, self.hx)), self.leaves, self.called)

    def step(self, name: str) -> Contender:
        """Make a contender of the layer's `step`, whose output has no axis of time."""
        x = self.x[:, 0]

        def formula(w: Leaves) -> list[Tensor]:
            output, *states = after_a_step(self.layer, w)
            return [output[:, 0], *states]

        expected = Expected(formula, self.leaves, None)
        return Contender(name, self.setting, lambda: flat(self.layer.step(x, self.hx)), self.leaves, expected)


def after_a_step(layer: RecurrentLayer, w: Leaves) -> list[Tensor]:
    """Compute output and states of one step from the states among the leaves."""
    states = (w[f"state {n}"].reshape(1, -1) for n in range(len(layer.state_names)))
    return run_equations(layer, w, w["input"], *states)


def named_states(hx: Hidden) -> dict[str, Tensor]:
    """Name the tensors of a state as leaves."""
    return {f"state {n}": tensor for n, tensor in enumerate(hx if isinstance(hx, tuple) else (hx,))}


def products_of_rows(name: str, setting: Setting, weights: Sequence[tuple[Tensor, Tensor | None]]) -> Contender:
    """Make a contender of one row's product with each weight, and the bias beside it if there is one."""
    rows = [setting.normal(1, weight.shape[1]) for weight, _ in weights]
    products = [(row, weight, bias) for row, (weight, bias) in zip(rows, weights, strict=True)]
    names = ("row", "weight", "bias")
    leaves = {
        f"{name} {number}": tensor for number, product in enumerate(products)
        for name, tensor in zip(names, product, strict=True) if tensor is not None
    }  # fmt: skip

    def multiplied(w: Leaves) -> list[Tensor]:
        return [linear(w[f"row {n}"], w[f"weight {n}"], w.get(f"bias {n}")) for n in range(len(products))]

    expected = Expected(multiplied, leaves, None)
    return Contender(name, setting, lambda: tuple(linear(*product) for product in products), leaves, expected)


def looped(pair: Ours) -> Contender:
    """Make a contender of the same layer with backend "reference", a plain torch loop."""
    contender, layer = pair
    slow = deepcopy(layer)
    slow.backend = "reference"
    return _same_weights(by_loop(contender.name), pair, slow)


def by_kernel(pair: Ours) -> Contender:
    """Make a contender of the same layer with backend "native", our kernel whatever the length."""
    layer = deepcopy(pair.layer)
    layer.backend = "native"
    return _same_weights(f"{pair.contender.name} by our kernel", pair, layer)


def torch_layer(pair: Ours) -> Contender:
    """Make a contender of torch's own layer with the same weights."""
    layer, name = pair.layer, type(pair.layer).__name__  # LSTM or GRU, as there
    module = getattr(nn, name)(layer.input_size, layer.hidden_size, batch_first=True, device=layer.weight_ih_l0.device)
    module.load_state_dict(layer.state_dict())
    return _same_weights(f"nn.{name}", pair, module)


def python_loop_lstm(pair: Ours) -> Contender:
    """Make a contender of a plain LSTM: a loop over steps, with both products in each, for at most `LOOP_STEPS`."""
    contender, layer = pair
    time = contender.setting.shape[1]
    steps = min(time, LOOP_STEPS)
    leaves = {name: leaf.detach().clone().requires_grad_() for name, leaf in contender.leaves.items()}
    leaves["input"] = x = contender.leaves["input"].detach()[:, :steps].clone().requires_grad_()
    assert contender.expected.upstream is not None
    expected = Expected(lambda w: run_equations(layer, w, w["input"]), leaves, contender.expected.upstream[:, :steps])
    return Contender(
        PYTHON_LOOP, contender.setting, lambda: lstm_loop(x, leaves), leaves, expected, times=time / steps
    )  # fmt: skip


def lstm_loop(x: Series, weights: Mapping[str, Tensor]) -> Series:
    """Compute all h_t, (batch, time, hidden), from torch's four weights."""
    w_ih, w_hh, b_ih, b_hh = (weights[f"{name}_l0"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    h = c = x.new_zeros(x.shape[0], w_hh.shape[1])
    outputs = []
    for x_t in x.unbind(1):
        i, f, g, o = (linear(x_t, w_ih, b_ih) + linear(h, w_hh, b_hh)).chunk(4, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        outputs.append(h)
    return torch.stack(outputs, dim=1)


def _same_weights(name: str, pair: Ours, module: nn.Module) -> Contender:
    """Make a contender of another module with our parameters, checked against the same reference."""
    x = pair.contender.leaves["input"]
    leaves = {"input": x, **dict(module.named_parameters())}
    return Contender(name, pair.contender.setting, lambda: flat(module(x)), leaves, pair.contender.expected)


def _upstream(setting: Setting) -> Tensor:
    return setting.normal(*setting.shape[::-1]).transpose(0, 2).contiguous()


def _input_for(layer: RecurrentLayer, setting: Setting) -> Series:
    """Draw an input with no candidate so near a kink that rounding decides its side."""
    x = setting.input().detach()
    if _has_kink(layer):
        rows = [_candidate(layer, name) for name in ("weight_ih_l0", "bias_ih_l0")]
        again = torch.Generator().manual_seed(1)
        with torch.no_grad():
            while (near := (linear(x, *rows).abs() < NEAR_KINK).any(2)).any():
                x[near] = torch.randn(int(near.sum()), x.shape[2], generator=again).to(x.device)
    return x.requires_grad_()


def _has_kink(layer: RecurrentLayer) -> bool:
    """Whether the candidate goes through g, which has a kink at 0."""
    return layer.cell.options.get("activation") == "g"


def _candidate(layer: RecurrentLayer, name: str) -> Tensor:
    """Return the candidate's rows of a parameter."""
    gates = layer.cell.projections
    return layer.get_parameter(name).chunk(len(gates))[gates.index("candidate")]
