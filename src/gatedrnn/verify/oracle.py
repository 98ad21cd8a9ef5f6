"""The cells a second time: plain numpy in float64, value for value from the papers, one function a cell.

Each runs one layer in one direction over a whole sequence of one step or more. x is (batch, time, features); weights
are named as in `torch.nn` without the layer's suffix, and a bias or `weight_hr` that is absent is left out; state is
the one before the first step, (h, c), (h,) or (c,), each (batch, size). Returned are the outputs and the last state.
Nothing of the library is read here, and nothing is shared between the cells but sigmoid, g and the output projection.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Weights = Mapping[str, Array]
State = tuple[Array, ...]


def lstm(x: Array, weights: Weights, state: State) -> tuple[Array, State]:
    """`torch.nn.LSTM`: Gers et al. 2000; projection of Sak et al. 2014 (arXiv:1402.1128), inside the recurrence.

    Rows i f g o. f keeps, i writes. State (h, c).
    """
    h, c = state
    outputs = []
    for t in range(x.shape[1]):
        gates = x[:, t] @ weights["weight_ih"].T + weights.get("bias_ih", 0)
        gates = gates + h @ weights["weight_hh"].T + weights.get("bias_hh", 0)
        i, f, g, o = np.split(gates, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        if "weight_hr" in weights:
            h = h @ weights["weight_hr"].T
        outputs.append(h)
    return np.stack(outputs, axis=1), (h, c)


def lstm_peephole(x: Array, weights: Weights, state: State) -> tuple[Array, State]:
    """Gers et al. 2002; Sak et al. 2014 (arXiv:1402.1128), whose projection is inside the recurrence.

    Rows i f g o. f keeps, i writes; i and f see the cell before the step, o the one after it. State (h, c).
    """
    h, c = state
    outputs = []
    for t in range(x.shape[1]):
        gates = x[:, t] @ weights["weight_ih"].T + h @ weights["weight_hh"].T + weights.get("bias_ih", 0)
        i, f, g, o = np.split(gates, 4, axis=1)
        i = sigmoid(i + weights["weight_ci"] * c)
        f = sigmoid(f + weights["weight_cf"] * c)
        c = f * c + i * np.tanh(g)
        o = sigmoid(o + weights["weight_co"] * c)
        h = o * np.tanh(c)
        if "weight_hr" in weights:
            h = h @ weights["weight_hr"].T
        outputs.append(h)
    return np.stack(outputs, axis=1), (h, c)


def lstm_no_output_gate(x: Array, weights: Weights, state: State) -> tuple[Array, State]:
    """From the LSTM to minLSTM, step 1: no output gate, h = tanh(c). Rows i f g. f keeps, i writes. State (c,)."""
    (c,) = state
    outputs = []
    for t in range(x.shape[1]):
        gates = x[:, t] @ weights["weight_ih"].T + np.tanh(c) @ weights["weight_hh"].T + weights.get("bias_ih", 0)
        i, f, g = np.split(gates, 3, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        outputs.append(np.tanh(c))
    return _projected(outputs, weights), (c,)


def lstm_input_gated(x: Array, weights: Weights, state: State) -> tuple[Array, State]:
    """From the LSTM to minLSTM, step 2: gates read x alone. Rows i f g. f keeps, i writes. State (c,)."""
    (c,) = state
    outputs = []
    for t in range(x.shape[1]):
        i, f, g = np.split(x[:, t] @ weights["weight_ih"].T + weights.get("bias_ih", 0), 3, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        outputs.append(np.tanh(c))
    return _projected(outputs, weights), (c,)


def lstm_normalized(x: Array, weights: Weights, state: State) -> tuple[Array, State]:
    """From the LSTM to minLSTM, step 3: f/(f+i) keeps, i/(f+i) writes. Rows i f g. State (c,)."""
    (c,) = state
    outputs = []
    for t in range(x.shape[1]):
        i, f, g = np.split(x[:, t] @ weights["weight_ih"].T + weights.get("bias_ih", 0), 3, axis=1)
        # f/(f+i) = sigmoid(log f - log i); the plain quotient is 0/0 where both gates are shut.
        log_ratio = np.logaddexp(0, -i) - np.logaddexp(0, -f)
        c = sigmoid(log_ratio) * c + sigmoid(-log_ratio) * np.tanh(g)
        outputs.append(np.tanh(c))
    return _projected(outputs, weights), (c,)


def minlstm(x: Array, weights: Weights, state: State, *, activation: str = "g") -> tuple[Array, State]:
    """Feng et al. 2024 (arXiv:2410.01201): f/(f+i) keeps, i/(f+i) writes. Rows v f i. State (h,)."""
    (h,) = state
    outputs = []
    for t in range(x.shape[1]):
        v, f, i = np.split(x[:, t] @ weights["weight_ih"].T + weights.get("bias_ih", 0), 3, axis=1)
        # f/(f+i) = sigmoid(log f - log i); the plain quotient is 0/0 where both gates are shut.
        log_ratio = np.logaddexp(0, -i) - np.logaddexp(0, -f)
        h = sigmoid(log_ratio) * h + sigmoid(-log_ratio) * ACTIVATIONS[activation](v)
        outputs.append(h)
    return _projected(outputs, weights), (h,)


def gru(x: Array, weights: Weights, state: State, *, reset_after: bool = True) -> tuple[Array, State]:
    """`torch.nn.GRU`: r after the product, two biases; else Cho et al. 2014 (arXiv:1406.1078): r before it, one bias.

    Rows r z n. z keeps in both. State (h,).
    """
    (h,) = state
    U_r, U_z, U_n = np.split(weights["weight_hh"], 3)
    b_hr, b_hz, b_hn = np.split(weights.get("bias_hh", np.zeros(len(weights["weight_hh"]))), 3)
    outputs = []
    for t in range(x.shape[1]):
        x_r, x_z, x_n = np.split(x[:, t] @ weights["weight_ih"].T + weights.get("bias_ih", 0), 3, axis=1)
        r = sigmoid(x_r + h @ U_r.T + b_hr)
        z = sigmoid(x_z + h @ U_z.T + b_hz)
        n = np.tanh(x_n + r * (h @ U_n.T + b_hn)) if reset_after else np.tanh(x_n + (r * h) @ U_n.T + b_hn)
        h = (1 - z) * n + z * h
        outputs.append(h)
    return _projected(outputs, weights), (h,)


def gru_d(
    x: Array, weights: Weights, state: State, *, gap_features: int = 1, gaps: Array | None = None
) -> tuple[Array, State]:
    """Che et al. 2018 (arXiv:1606.01865): the state decays first, and gates and candidate read what is left of it.

    Rows r z n. z replaces. State (h,). gaps is (batch, time, gap_features), each 1 if None.
    """
    (h,) = state
    U_r, U_z, U_n = np.split(weights["weight_hh"], 3)
    outputs = []
    for t in range(x.shape[1]):
        delta = np.ones((len(x), gap_features)) if gaps is None else gaps[:, t]
        h = h * np.exp(-np.maximum(0, delta @ weights["weight_gap"].T + weights.get("bias_gap", 0)))
        x_r, x_z, x_n = np.split(x[:, t] @ weights["weight_ih"].T + weights.get("bias_ih", 0), 3, axis=1)
        z = sigmoid(x_z + h @ U_z.T)
        n = np.tanh(x_n + (sigmoid(x_r + h @ U_r.T) * h) @ U_n.T)
        h = (1 - z) * h + z * n
        outputs.append(h)
    return _projected(outputs, weights), (h,)


def indrnn(x: Array, weights: Weights, state: State, *, activation: str = "relu") -> tuple[Array, State]:
    """Li et al. 2018 (arXiv:1803.04831): h = relu(W x + u * h), or with tanh. State (h,)."""
    (h,) = state
    outputs = []
    for t in range(x.shape[1]):
        summed = x[:, t] @ weights["weight_ih"].T + weights.get("bias_ih", 0) + weights["weight_u"] * h
        h = np.maximum(summed, 0) if activation == "relu" else np.tanh(summed)
        outputs.append(h)
    return _projected(outputs, weights), (h,)


def para_gru(x: Array, weights: Weights, state: State) -> tuple[Array, State]:
    """Danieli et al. 2025 (arXiv:2510.21450). Rows z r n. z replaces; the reset gate acts on h. State (h,)."""
    (h,) = state
    outputs = []
    for t in range(x.shape[1]):
        z, r, n = np.split(x[:, t] @ weights["weight_ih"].T + weights.get("bias_ih", 0), 3, axis=1)
        z, r = sigmoid(z + weights["weight_az"] * h), sigmoid(r + weights["weight_ar"] * h)
        h = h - z * h + z * np.tanh(n + weights["weight_an"] * r * h)
        outputs.append(h)
    return _projected(outputs, weights), (h,)


def cifg(x: Array, weights: Weights, state: State) -> tuple[Array, State]:
    """Greff et al. 2017 (arXiv:1503.04069), CIFG without peepholes. Rows f g o. f keeps, 1 - f writes. State (h, c)."""
    h, c = state
    outputs = []
    for t in range(x.shape[1]):
        gates = x[:, t] @ weights["weight_ih"].T + h @ weights["weight_hh"].T + weights.get("bias_ih", 0)
        f, g, o = np.split(gates, 3, axis=1)
        c = sigmoid(f) * c + (1 - sigmoid(f)) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        if "weight_hr" in weights:
            h = h @ weights["weight_hr"].T
        outputs.append(h)
    return np.stack(outputs, axis=1), (h, c)


def janet(x: Array, weights: Weights, state: State, *, beta: float = 1.0) -> tuple[Array, State]:
    """van der Westhuizen & Lasenby 2018 (arXiv:1804.04849). Rows s n. The gate keeps. State (h,)."""
    (h,) = state
    outputs = []
    for t in range(x.shape[1]):
        gates = x[:, t] @ weights["weight_ih"].T + h @ weights["weight_hh"].T + weights.get("bias_ih", 0)
        s, n = np.split(gates, 2, axis=1)
        h = sigmoid(s) * h + (1 - sigmoid(s - beta)) * np.tanh(n)
        outputs.append(h)
    return _projected(outputs, weights), (h,)


def para_lstm(x: Array, weights: Weights, state: State) -> tuple[Array, State]:
    """Danieli et al. 2025 (arXiv:2510.21450). Rows f g o. f keeps and sees c before the step, o the one after it.
    State (h, c)."""
    h, c = state
    outputs = []
    for t in range(x.shape[1]):
        f, g, o = np.split(x[:, t] @ weights["weight_ih"].T + weights.get("bias_ih", 0), 3, axis=1)
        f = sigmoid(f + weights["weight_af"] * h + weights["weight_cf"] * c)
        c = f * c + (1 - f) * np.tanh(g + weights["weight_ag"] * h)
        h = sigmoid(o + weights["weight_ao"] * h + weights["weight_co"] * c) * np.tanh(c)
        outputs.append(h)
    return _projected(outputs, weights), (h, c)


def slstm(x: Array, weights: Weights, state: State, heads: int = 1) -> tuple[Array, State]:
    """Beck et al. 2024 (arXiv:2405.04517). Rows i f z o. f keeps; c and n are divided by exp(m). State (h, c, n, m)."""
    h, c, n, m = state
    columns, outputs = h.shape[1] // heads, []
    for t in range(x.shape[1]):
        gates = x[:, t] @ weights["weight_ih"].T + weights.get("bias_ih", 0)
        for row, recurrent in enumerate(weights["weight_hh"]):
            head = row % h.shape[1] // columns * columns
            gates[:, row] += h[:, head : head + columns] @ recurrent
        i, f, z, o = np.split(gates, 4, axis=1)
        kept = np.where(n == 0, i, m - np.logaddexp(0, -f))
        m = np.maximum(i, kept)
        c = np.exp(kept - m) * c + np.exp(i - m) * np.tanh(z)
        n = np.exp(kept - m) * n + np.exp(i - m)
        h = sigmoid(o) * c / np.maximum(n, 1)
        outputs.append(h)
    return _projected(outputs, weights), (h, c, n, m)


def sru(x: Array, weights: Weights, state: State) -> tuple[Array, State]:
    """Lei et al. 2018 (arXiv:1709.02755). Rows u f r s. f keeps; both gates see c before the step. State (h, c)."""
    h, c = state
    outputs = []
    for t in range(x.shape[1]):
        u, f, r, skip = np.split(x[:, t] @ weights["weight_ih"].T + weights.get("bias_ih", 0), 4, axis=1)
        f, r = sigmoid(f + weights["weight_vf"] * c), sigmoid(r + weights["weight_vr"] * c)
        c = u + (c - u) * f
        h = skip + (c - skip) * r
        outputs.append(h)
    return _projected(outputs, weights), (h, c)


def mgu(x: Array, weights: Weights, state: State, *, keep: bool = False) -> tuple[Array, State]:
    """Zhou et al. 2016 (arXiv:1603.09420): f replaces. Rows f n. State (h,).

    keep=True is another cell, in which f keeps; the candidate reads f*h in both.
    """
    (h,) = state
    U_f, U_n = np.split(weights["weight_hh"], 2)
    outputs = []
    for t in range(x.shape[1]):
        x_f, x_n = np.split(x[:, t] @ weights["weight_ih"].T + weights.get("bias_ih", 0), 2, axis=1)
        f = sigmoid(x_f + h @ U_f.T)
        n = np.tanh(x_n + (f * h) @ U_n.T)
        h = f * h + (1 - f) * n if keep else (1 - f) * h + f * n
        outputs.append(h)
    return _projected(outputs, weights), (h,)


def gru_no_reset_gate(x: Array, weights: Weights, state: State) -> tuple[Array, State]:
    """From the GRU to minGRU, step 1: no reset gate. Rows z n. z keeps. State (h,)."""
    (h,) = state
    outputs = []
    for t in range(x.shape[1]):
        gates = x[:, t] @ weights["weight_ih"].T + h @ weights["weight_hh"].T + weights.get("bias_ih", 0)
        z, n = np.split(gates, 2, axis=1)
        z = sigmoid(z)
        h = (1 - z) * np.tanh(n) + z * h
        outputs.append(h)
    return _projected(outputs, weights), (h,)


def gru_input_gated(x: Array, weights: Weights, state: State) -> tuple[Array, State]:
    """From the GRU to minGRU, step 2: gate and candidate read x alone. Rows z n. z keeps. State (h,)."""
    (h,) = state
    outputs = []
    for t in range(x.shape[1]):
        z, n = np.split(x[:, t] @ weights["weight_ih"].T + weights.get("bias_ih", 0), 2, axis=1)
        z = sigmoid(z)
        h = (1 - z) * np.tanh(n) + z * h
        outputs.append(h)
    return _projected(outputs, weights), (h,)


def mingru(x: Array, weights: Weights, state: State, *, activation: str = "g") -> tuple[Array, State]:
    """Feng et al. 2024 (arXiv:2410.01201): one gate, z replaces. Rows v z. State (h,)."""
    (h,) = state
    outputs = []
    for t in range(x.shape[1]):
        v, z = np.split(x[:, t] @ weights["weight_ih"].T + weights.get("bias_ih", 0), 2, axis=1)
        z = sigmoid(z)
        h = (1 - z) * h + z * ACTIVATIONS[activation](v)
        outputs.append(h)
    return _projected(outputs, weights), (h,)


def hgrn(x: Array, weights: Weights, state: State) -> tuple[Array, State]:
    """Qin et al. 2023 (arXiv:2311.04823), real, with a bound of each layer's own: f keeps. Rows v f. State (h,)."""
    (h,) = state
    outputs, bound = [], sigmoid(weights["weight_bound"])
    for t in range(x.shape[1]):
        v, f = np.split(x[:, t] @ weights["weight_ih"].T + weights.get("bias_ih", 0), 2, axis=1)
        f = bound + (1 - bound) * sigmoid(f)
        h = f * h + (1 - f) * v * sigmoid(v)
        outputs.append(h)
    return _projected(outputs, weights), (h,)


def rg_lru(x: Array, weights: Weights, state: State) -> tuple[Array, State]:
    """De et al. 2024 (arXiv:2402.19427), of a value: r replaces. Rows v r i. State (h,)."""
    (h,) = state
    outputs, least = [], np.log1p(np.exp(weights["weight_decay"]))
    for t in range(x.shape[1]):
        v, r, i = np.split(x[:, t] @ weights["weight_ih"].T + weights.get("bias_ih", 0), 3, axis=1)
        a = np.exp(-8 * least * sigmoid(r))
        h = a * h + np.sqrt(1 - a**2) * sigmoid(i) * v
        outputs.append(h)
    return _projected(outputs, weights), (h,)


def qrnn(x: Array, weights: Weights, state: State, *, window: int = 2) -> tuple[Array, State]:
    """Bradbury et al. 2017 (arXiv:1611.01576), fo-pooling: f keeps. Rows z f o. State (c, last input), or (c,)."""
    c, *rest = state
    last, outputs = rest[0][:, : x.shape[2]] if rest else None, []
    for t in range(x.shape[1]):
        read = x[:, t] if last is None else np.concatenate([x[:, t], last], axis=1)
        z, f, o = np.split(read @ weights["weight_ih"].T + weights.get("bias_ih", 0), 3, axis=1)
        c = sigmoid(f) * c + (1 - sigmoid(f)) * np.tanh(z)
        last = None if last is None else x[:, t]
        outputs.append(sigmoid(o) * c)
    return _projected(outputs, weights), (c,) if last is None else (c, last)


def lru(x: Array, weights: Weights, state: State) -> tuple[Array, State]:
    """Orvieto et al. 2023 (arXiv:2303.06349), complex. Rows Re B, Im B. State (Re h, Im h) side by side."""
    h = _complex(state[0])
    outputs, a = [], np.exp(-np.exp(weights["weight_nu"]) + 1j * np.exp(weights["weight_theta"]))
    for t in range(x.shape[1]):
        h = a * h + np.exp(weights["weight_gamma"]) * _complex(
            x[:, t] @ weights["weight_ih"].T + weights.get("bias_ih", 0)
        )
        outputs.append(np.concatenate([h.real, h.imag], axis=1))
    return _projected(outputs, weights), (outputs[-1],)


def signed_mingru(x: Array, weights: Weights, state: State) -> tuple[Array, State]:
    """A decay within -1 and 1, which may change the sign of the state, and an input by what it leaves. Rows v a."""
    (h,) = state
    outputs = []
    for t in range(x.shape[1]):
        v, a = np.split(x[:, t] @ weights["weight_ih"].T + weights.get("bias_ih", 0), 2, axis=1)
        a = np.minimum(np.maximum(a, -1), 1)
        h = a * h + (1 - np.abs(a)) * v
        outputs.append(h)
    return _projected(outputs, weights), (h,)


def block_orthogonal(x: Array, weights: Weights, state: State, *, block_size: int = 2) -> tuple[Array, State]:
    """Blocks of channels turned by the input, each by itself; d keeps. Rows v d, then an angle and a mirror for each
    block of 2; else whether to reflect, and the axes. Channel i of block n is i · blocks + n. State (h,)."""
    (h,), outputs = state, []
    blocks, kinds = h.shape[1] // block_size, 3 if block_size == 2 else 3 + block_size
    for t in range(x.shape[1]):
        v, d, *turns = np.split(x[:, t] @ weights["weight_ih"].T + weights.get("bias_ih", 0), kinds, axis=1)
        d, after = np.minimum(np.maximum(d, 0), 1), np.empty_like(h)
        for row in range(len(h)):
            for n in range(blocks):
                own = slice(n, None, blocks)
                if block_size == 2:
                    angle, mirror = turns[0][row, own]
                    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
                    turn = turn @ np.diag([1, 1 if mirror > 0 else -1])
                else:
                    turn = np.eye(block_size)
                    for reflect, axis in zip(turns[0][row, own][::-1], turns[:0:-1], strict=True):
                        u = axis[row, own] / np.linalg.norm(axis[row, own])
                        turn = (np.eye(block_size) - 2 * (reflect > 0) * np.outer(u, u)) @ turn
                after[row, own] = d[row, own] * (turn @ h[row, own]) + (1 - d[row, own]) * v[row, own]
        h = after
        outputs.append(h)
    return _projected(outputs, weights), (h,)


def sigmoid(x: Array) -> Array:
    # Two branches, because exp(1000) overflows.
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


def g(x: Array) -> Array:
    """Feng et al. 2024, appendix B.3: x + 1/2 for x >= 0, sigmoid(x) below."""
    return np.where(x >= 0, x + 0.5, sigmoid(x))


def _complex(pairs: Array) -> NDArray[np.complex128]:
    real, imaginary = np.split(pairs, 2, axis=1)
    return real + 1j * imaginary


def _projected(outputs: list[Array], weights: Weights) -> Array:
    """The outputs of all steps in one array; a projection here is outside the state."""
    states = np.stack(outputs, axis=1)
    return states @ weights["weight_hr"].T if "weight_hr" in weights else states


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {"g": g, "identity": lambda x: x}

ORACLES: dict[str, Callable[..., tuple[Array, State]]] = {
    "lstm": lstm,
    "lstm-peephole": lstm_peephole,
    "lstm-no-output-gate": lstm_no_output_gate,
    "lstm-input-gated": lstm_input_gated,
    "lstm-normalized": lstm_normalized,
    "minlstm": minlstm,
    "gru": gru,
    "gru-d": gru_d,
    "mgu": mgu,
    "gru-no-reset-gate": gru_no_reset_gate,
    "gru-input-gated": gru_input_gated,
    "mingru": mingru,
    "signed-mingru": signed_mingru,
    "hgrn": hgrn,
    "rg-lru": rg_lru,
    "qrnn": qrnn,
    "lru": lru,
    "indrnn": indrnn,
    "para-gru": para_gru,
    "para-lstm": para_lstm,
    "slstm": slstm,
    "sru": sru,
    "cifg": cifg,
    "janet": janet,
    "block-orthogonal": block_orthogonal,
}
