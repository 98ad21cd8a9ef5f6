"""Cells beside their authors' code, with its weights: the largest difference of outputs, float32.

    python tools/authors.py CLONES [--output results/bench/authors.json]

CLONES has clones of asappresearch/sru, xaviergonzalez/ml-pararnn, google-deepmind/recurrentgemma, NX-AI/xlstm,
fla-org/flash-linear-attention, salesforce/pytorch-qrnn and NicolasZucchet/minimal-LRU, each under its repository's
name; torchrecurrent comes from PyPI, and so do einops, jaxtyping and typeguard, which recurrentgemma asks for, and
flax, for minimal-LRU. The first builds its C++ with ninja and a compiler. All stays
within 1e-6, or the command fails.
"""

import ast
import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from cyclopts import App
from torch import Tensor, nn
from torch.nn.functional import linear, logsigmoid, silu

import gatedrnn
from gatedrnn.records import environment

app = App(help=__doc__)
BATCH, STEPS, FEATURES, HIDDEN = 3, 50, 8, 16
ALLOWED = 1e-6


@app.default
def compare(clones: Path, *, output: Path | None = None) -> None:
    """Run all.

    Args:
        clones: folder of the clones.
        output: JSON file of the differences.
    """
    checks: dict[str, Callable[[Path], Tensor]] = {
        "janet": janet, "indrnn": indrnn, "sru": sru, "para-gru": para_gru, "para-lstm": para_lstm, "hgrn": hgrn,
        "rg-lru": rg_lru, "slstm": slstm, "qrnn": qrnn, "lru": lru,
    }  # fmt: skip
    errors = {}
    for name, check in checks.items():
        torch.manual_seed(0)
        errors[name] = float(check(clones).abs().max())
        print(f"{name:10} {errors[name]:.1e}")
    if output is not None:
        output.write_text(json.dumps({**environment(), "differences": errors}, indent=1) + "\n")
    if max(errors.values()) > ALLOWED:
        raise SystemExit(f"a difference is above {ALLOWED:.0e}")


def series() -> Tensor:
    """Random inputs, (batch, time, features)."""
    return torch.randn(BATCH, STEPS, FEATURES)


def by_steps(cell: Callable[..., Any], x: Tensor, state: Any) -> Tensor:
    """Outputs of another library's cell, whose first state is its output."""
    outputs = []
    for t in range(x.shape[1]):
        state = cell(x[:, t], state)
        outputs.append(state[0] if isinstance(state, tuple) else state)
    return torch.stack(outputs, dim=1)


def with_weights(layer: nn.Module, **weights: Tensor) -> nn.Module:
    """Our layer with these, by their names without `_l0`."""
    layer.load_state_dict({f"{name}_l0": weight.detach() for name, weight in weights.items()})
    return layer


@torch.no_grad()
def janet(_: Path) -> Tensor:
    """torchrecurrent's, whose two biases add up."""
    from torchrecurrent import JANETCell

    theirs, x, zeros = JANETCell(FEATURES, HIDDEN), series(), torch.zeros(BATCH, HIDDEN)
    bias = torch.randn(2 * HIDDEN)
    theirs.bias_ih.copy_(bias)
    ours = with_weights(
        gatedrnn.JANET(FEATURES, HIDDEN, batch_first=True), weight_ih=theirs.weight_ih, weight_hh=theirs.weight_hh,
        bias_ih=bias,
    )  # fmt: skip
    return by_steps(theirs, x, (zeros, zeros)) - ours(x)[0]


@torch.no_grad()
def indrnn(_: Path) -> Tensor:
    """torchrecurrent's."""
    from torchrecurrent import IndRNNCell

    theirs, x = IndRNNCell(FEATURES, HIDDEN), series()
    parameters = dict(theirs.named_parameters())
    ours = with_weights(
        gatedrnn.IndRNN(FEATURES, HIDDEN, batch_first=True, activation="tanh"), weight_ih=parameters["weight_ih"],
        weight_u=parameters["vector_u"].flatten(), bias_ih=parameters["bias_ih"] + parameters["bias_hh"],
    )  # fmt: skip
    return by_steps(theirs, x, torch.zeros(BATCH, HIDDEN)) - ours(x)[0]


def sru(clones: Path) -> Tensor:
    """The authors', with a skip of its own since input and state differ in size."""
    sys.path.insert(0, str(clones / "sru"))
    layer = import_module("sru").SRUCell(FEATURES, HIDDEN, layer_norm=False)
    with torch.no_grad():
        layer.weight_c.normal_()
        layer.bias.normal_()
    # Rows of a channel lie together there: candidate, forget, highway, skip.
    weight = layer.weight.detach().view(FEATURES, HIDDEN, 4).permute(2, 1, 0).reshape(4 * HIDDEN, FEATURES)
    forget, highway = layer.bias.detach().view(2, HIDDEN)
    bias = torch.cat([torch.zeros(HIDDEN), forget, highway, torch.zeros(HIDDEN)])
    v_f, v_r = layer.weight_c.detach().view(2, HIDDEN)
    ours = with_weights(
        gatedrnn.SRU(FEATURES, HIDDEN, batch_first=True), weight_ih=weight, bias_ih=bias, weight_vf=v_f, weight_vr=v_r
    )
    x = series()
    with torch.no_grad():
        theirs, _ = layer.eval()(x.transpose(0, 1))
        return theirs.transpose(0, 1) - ours(x)[0]


def pararnn(clones: Path, file: str) -> Any:
    """The static methods of a file of ml-pararnn as they are, in a class of their own.

    The file itself is not imported: it asks for a library for a GPU, and for an older Python.
    """
    source = (clones / "ml-pararnn" / "pararnn" / "rnn_cell" / f"{file}.py").read_text()
    wanted = ("recurrence_step", "_split_hidden_state", "_recombine_hidden_state")
    methods = [
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef) and node.name in wanted
    ]
    class_ = ast.ClassDef(name="Own", bases=[], keywords=[], body=list(methods), decorator_list=[])
    code = ast.Module([ast.parse("from __future__ import annotations").body[0], class_], [])
    there: dict[str, Any] = {"torch": torch}
    exec(compile(ast.fix_missing_locations(code), file, "exec"), there)
    return there["Own"]


def heads(gates: int) -> dict[str, Tensor]:
    """Weights as they are there, with one head: A (gates, channels), B (1, features, gates, channels), b."""
    return {
        "A": torch.randn(gates, HIDDEN), "B": torch.randn(1, FEATURES, gates, HIDDEN), "b": torch.randn(gates, HIDDEN)
    }  # fmt: skip


@torch.no_grad()
def para_gru(clones: Path) -> Tensor:
    """The authors' recurrence, rows z r n."""
    own, x = heads(3), series()
    gates = {"nonlin_update": torch.sigmoid, "nonlin_reset": torch.sigmoid, "nonlin_state": torch.tanh}
    step = pararnn(clones, "gru_diag_mh").recurrence_step
    theirs = by_steps(lambda x, h: step(x, h, SimpleNamespace(**own, **gates)), x, torch.zeros(BATCH, HIDDEN))
    ours = with_weights(
        gatedrnn.ParaGRU(FEATURES, HIDDEN, batch_first=True), weight_ih=own["B"][0].flatten(1).T,
        bias_ih=own["b"].flatten(), **dict(zip(("weight_az", "weight_ar", "weight_an"), own["A"], strict=True)),
    )  # fmt: skip
    return theirs - ours(x)[0]


@torch.no_grad()
def para_lstm(clones: Path) -> Tensor:
    """The authors' recurrence, rows f o g; its state is c and h in one."""
    own, peepholes, x = heads(3), torch.randn(2, HIDDEN), series()
    gates = {"nonlin_f": torch.sigmoid, "nonlin_o": torch.sigmoid, "nonlin_c": torch.tanh, "nonlin_state": torch.tanh}
    step = pararnn(clones, "lstm_cifg_diag_mh").recurrence_step
    system = SimpleNamespace(**own, **gates, C=peepholes)
    both = by_steps(lambda x, s: step(x, s, system), x, torch.zeros(BATCH, 2 * HIDDEN))
    order = torch.tensor([0, 2, 1])  # ours are f g o
    ours = with_weights(
        gatedrnn.ParaLSTM(FEATURES, HIDDEN, batch_first=True), weight_ih=own["B"][0][:, order].flatten(1).T,
        bias_ih=own["b"][order].flatten(),
        **dict(zip(("weight_af", "weight_ag", "weight_ao"), own["A"][order], strict=True)),
        **dict(zip(("weight_cf", "weight_co"), peepholes, strict=True)),
    )  # fmt: skip
    return both[..., HIDDEN:] - ours(x)[0]


@torch.no_grad()
def hgrn(clones: Path) -> Tensor:
    """The authors' recurrence in torch, with the gates as their layer has them (`fla/layers/hgrn.py`)."""
    file = clones / "flash-linear-attention" / "fla" / "ops" / "hgrn" / "naive.py"
    there: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), there)
    ours, x = gatedrnn.HGRN(FEATURES, HIDDEN, batch_first=True), series()
    parameters = dict(ours.named_parameters())
    bound = torch.sigmoid(parameters["weight_bound_l0"])
    candidate, forget = linear(x, parameters["weight_ih_l0"], parameters["bias_ih_l0"]).chunk(2, dim=-1)
    log_decay = torch.logaddexp(bound.log(), torch.log1p(-bound) + logsigmoid(forget))
    theirs, _ = there["naive_recurrent_hgrn"](silu(candidate) * (1 - log_decay.exp()), log_decay)
    return theirs - ours(x)[0]


@torch.no_grad()
def slstm(clones: Path) -> Tensor:
    """The authors' loop in torch over two heads, rows i f z o; its recurrent weights are (heads, rows, columns)."""
    sys.path.insert(0, str(clones / "xlstm" / "xlstm" / "blocks" / "slstm" / "src"))
    vanilla: Any = import_module("vanilla")
    x, columns = series(), HIDDEN // 2
    weight, bias = torch.randn(4 * HIDDEN, FEATURES), torch.randn(4 * HIDDEN)
    recurrent = torch.randn(2, 4 * columns, columns) / HIDDEN**0.5
    projected = (x @ weight.T).transpose(0, 1)
    states, *_ = vanilla.slstm_forward(
        projected, torch.zeros(4, BATCH, HIDDEN), recurrent, bias, vanilla.slstm_pointwise_function_registry["slstm"]
    )
    ours = with_weights(
        gatedrnn.SLSTM(FEATURES, HIDDEN, batch_first=True, heads=2), weight_ih=weight, bias_ih=bias,
        weight_hh=recurrent.view(2, 4, columns, columns).transpose(0, 1).reshape(4 * HIDDEN, columns),
    )  # fmt: skip
    return states[0, 1:].transpose(0, 1) - ours(x)[0]


@torch.no_grad()
def rg_lru(clones: Path) -> Tensor:
    """The authors' layer with one block; no step of it is a first one, whose root it takes as 1."""
    for name in ("recurrentgemma", "recurrentgemma.torch"):  # whose own imports ask for jax
        package = sys.modules[name] = ModuleType(name)
        package.__path__ = [str(clones / "recurrentgemma" / name.replace(".", "/"))]
    theirs, x = import_module("recurrentgemma.torch.layers").RGLRU(HIDDEN, 1), torch.randn(BATCH, STEPS, HIDDEN)
    gates = (theirs.a_gate, theirs.input_gate)
    for gate in gates:
        gate.b.normal_()
    ours = with_weights(
        gatedrnn.RGLRU(HIDDEN, HIDDEN, batch_first=True),
        weight_ih=torch.cat([torch.eye(HIDDEN), *(gate.w[0].T for gate in gates)]),
        bias_ih=torch.cat([torch.zeros(HIDDEN), *(gate.b[0] for gate in gates)]), weight_decay=theirs.a_param,
    )  # fmt: skip
    places = torch.arange(1, STEPS + 1).expand(BATCH, STEPS)
    output, _ = theirs(x, places, theirs.init_cache(BATCH, HIDDEN))
    return output - ours(x)[0]


@torch.no_grad()
def qrnn(clones: Path) -> Tensor:
    """The authors' layer with a window of 2; f is what lets in there, so its rows have the other sign."""
    for name in ("cupy", "cupy.cuda", "pynvrtc", "pynvrtc.compiler"):  # for its kernel of a GPU
        sys.modules[name] = ModuleType(name)
    sys.modules["cupy.cuda"].function = sys.modules["pynvrtc.compiler"].Program = None  # type: ignore[attr-defined]
    sys.path.insert(0, str(clones / "pytorch-qrnn"))
    theirs, x = import_module("torchqrnn").QRNNLayer(FEATURES, HIDDEN, window=2, use_cuda=False), series()
    sign = torch.cat([torch.ones(HIDDEN), -torch.ones(HIDDEN), torch.ones(HIDDEN)])
    ours = with_weights(
        gatedrnn.QRNN(FEATURES, HIDDEN, batch_first=True),
        weight_ih=theirs.linear.weight * sign.unsqueeze(1),
        bias_ih=theirs.linear.bias * sign,
    )
    return theirs(x.transpose(0, 1))[0].transpose(0, 1) - ours(x)[0]


@torch.no_grad()
def lru(clones: Path) -> Tensor:
    """The authors' module, a sequence at a time, less D x."""
    sys.path.insert(0, str(clones / "minimal-LRU"))
    jax: Any = import_module("jax")
    theirs, x = import_module("lru.model").LRU(d_hidden=HIDDEN // 2, d_model=FEATURES), series()
    variables = theirs.init(jax.random.PRNGKey(0), x[0].numpy())
    outputs = torch.stack([torch.tensor(jax.device_get(theirs.apply(variables, row.numpy()))) for row in x])
    of = {name: torch.tensor(jax.device_get(weight)) for name, weight in variables["params"].items()}
    ours = with_weights(
        gatedrnn.LRU(FEATURES, HIDDEN, proj_size=FEATURES, bias=False, batch_first=True),
        weight_ih=torch.cat([of["B_re"], of["B_im"]]), weight_hr=torch.cat([of["C_re"], -of["C_im"]], dim=1),
        weight_nu=of["nu_log"], weight_theta=of["theta_log"], weight_gamma=of["gamma_log"],
    )  # fmt: skip
    return outputs - of["D"] * x - ours(x)[0]


if __name__ == "__main__":
    app()
