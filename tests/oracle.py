"""The cells a second time: plain numpy in float64, number for number from the papers, one function a cell.

Each walks one layer in one direction over a whole sequence. x is (batch, time, features); weights are named as in
`torch.nn`, without biases where there are none; the state before the first step is handed in.
Nothing of the library is read here, and nothing is shared between the cells but sigmoid and g.
"""

import numpy as np


def lstm(x, weights, h, c):
    """Gers et al. 2000; projection of Sak et al. 2014 (arXiv:1402.1128). Rows i f g o. Returns outputs, h, c."""
    outputs = []
    for t in range(x.shape[1]):
        gates = x[:, t] @ weights["weight_ih_l0"].T + h @ weights["weight_hh_l0"].T
        gates = gates + weights.get("bias_ih_l0", 0) + weights.get("bias_hh_l0", 0)
        i, f, g, o = np.split(gates, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        if "weight_hr_l0" in weights:
            h = h @ weights["weight_hr_l0"].T
        outputs.append(h)
    return np.stack(outputs, axis=1), h, c


def gru(x, weights, h):
    """`torch.nn.GRU`: the reset gate after the product; z keeps. Rows r z n. Returns outputs, h."""
    outputs = []
    for t in range(x.shape[1]):
        x_r, x_z, x_n = np.split(x[:, t] @ weights["weight_ih_l0"].T + weights.get("bias_ih_l0", 0), 3, axis=1)
        h_r, h_z, h_n = np.split(h @ weights["weight_hh_l0"].T + weights.get("bias_hh_l0", 0), 3, axis=1)
        r, z = sigmoid(x_r + h_r), sigmoid(x_z + h_z)
        h = (1 - z) * np.tanh(x_n + r * h_n) + z * h
        outputs.append(h)
    return np.stack(outputs, axis=1), h


def minlstm(x, weights, h, activation):
    """Feng et al. 2024 (arXiv:2410.01201): gates normalised to sum to one. Rows v f i. Returns outputs, h."""
    outputs = []
    for t in range(x.shape[1]):
        v, f, i = np.split(x[:, t] @ weights["weight_ih_l0"].T + weights.get("bias_ih_l0", 0), 3, axis=1)
        f, i = sigmoid(f), sigmoid(i)
        h = f / (f + i) * h + i / (f + i) * ACTIVATIONS[activation](v)
        outputs.append(h)
    return _projected(outputs, weights), h


def mingru(x, weights, h, activation):
    """Feng et al. 2024 (arXiv:2410.01201): one gate, z replaces. Rows v z. Returns outputs, h."""
    outputs = []
    for t in range(x.shape[1]):
        v, z = np.split(x[:, t] @ weights["weight_ih_l0"].T + weights.get("bias_ih_l0", 0), 2, axis=1)
        z = sigmoid(z)
        h = (1 - z) * h + z * ACTIVATIONS[activation](v)
        outputs.append(h)
    return _projected(outputs, weights), h


def sigmoid(x):
    # Two branches, because exp(1000) overflows.
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


def g(x):
    """Appendix B.3: x + 1/2 for x >= 0, sigmoid(x) below."""
    return np.where(x >= 0, x + 0.5, sigmoid(x))


ACTIVATIONS = {"g": g, "identity": lambda x: x}


def _projected(outputs, weights):
    """A projection outside the state: the minimal cells' output projection."""
    states = np.stack(outputs, axis=1)
    return states @ weights["weight_hr_l0"].T if "weight_hr_l0" in weights else states
