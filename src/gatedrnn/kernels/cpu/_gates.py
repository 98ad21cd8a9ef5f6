"""The gates of loop cells and their gradients as loops over rows of channels; tests hold each to the cell's equations.

A function for a step and one for its gradient. x is the row of input projections, u that of recurrent
products with their bias, both with one block a gate in the order of the cell's projections; `saved` gets the gates
after their activation.
"""

from typing import Any

import numba

from gatedrnn.kernels.cpu._compile import INNER
from gatedrnn.kernels.cpu._math import ONE, sigmoid, tanh
from gatedrnn.kernels.cpu._views import block

LSTM, NO_OUTPUT_GATE, GRU, GRU_BEFORE, NO_RESET_GATE, MGU, MGU_KEEP = range(7)
FORMS = {
    "lstm": LSTM, "lstm-no-output-gate": NO_OUTPUT_GATE, "gru": GRU, "gru-reset-before": GRU_BEFORE,
    "gru-no-reset-gate": NO_RESET_GATE, "mgu": MGU, "mgu-keep": MGU_KEEP,
}  # fmt: skip
"""By `LoopKernel.form`."""


@numba.njit(**INNER)
def lstm(x: Any, u: Any, c: Any, peepholes: Any, h: Any, saved: Any) -> None:
    """c and h = o tanh(c), in place; peepholes may be empty."""
    n = c.size
    x_i, x_f, x_g, x_o = block(x, 0, n), block(x, 1, n), block(x, 2, n), block(x, 3, n)
    u_i, u_f, u_g, u_o = block(u, 0, n), block(u, 1, n), block(u, 2, n), block(u, 3, n)
    i_t, f_t, g_t, o_t = block(saved, 0, n), block(saved, 1, n), block(saved, 2, n), block(saved, 3, n)
    if peepholes.size:
        w_i, w_f, w_o = block(peepholes, 0, n), block(peepholes, 1, n), block(peepholes, 2, n)
        for k in range(n):
            u_i[k] += w_i[k] * c[k]
            u_f[k] += w_f[k] * c[k]
    for k in range(n):
        i_t[k] = sigmoid(x_i[k] + u_i[k])
        f_t[k] = sigmoid(x_f[k] + u_f[k])
        g_t[k] = tanh(x_g[k] + u_g[k])
    for k in range(n):
        c[k] = f_t[k] * c[k] + i_t[k] * g_t[k]
    if peepholes.size:
        for k in range(n):
            u_o[k] += w_o[k] * c[k]
    for k in range(n):
        o = sigmoid(x_o[k] + u_o[k])
        o_t[k] = o
        h[k] = o * tanh(c[k])


@numba.njit(**INNER)
def lstm_backward(
    saved: Any, before: Any, after: Any, peepholes: Any, delta_h: Any, delta_c: Any, grad: Any, grad_peepholes: Any
) -> None:
    """From the gradients of h and of c: those of the pre-activations; that of the c before replaces
    delta_c."""
    n = before.size
    i_t, f_t, g_t, o_t = block(saved, 0, n), block(saved, 1, n), block(saved, 2, n), block(saved, 3, n)
    d_i, d_f, d_g, d_o = block(grad, 0, n), block(grad, 1, n), block(grad, 2, n), block(grad, 3, n)
    for k in range(n):
        squashed, o = tanh(after[k]), o_t[k]
        d_o[k] = delta_h[k] * squashed * o * (ONE - o)
        delta_c[k] += delta_h[k] * o * (ONE - squashed * squashed)
    if peepholes.size:
        w_o, into_o = block(peepholes, 2, n), block(grad_peepholes, 2, n)
        for k in range(n):
            delta_c[k] += d_o[k] * w_o[k]
            into_o[k] += d_o[k] * after[k]
    for k in range(n):
        d, i, f, g = delta_c[k], i_t[k], f_t[k], g_t[k]
        d_i[k] = d * g * i * (ONE - i)
        d_f[k] = d * before[k] * f * (ONE - f)
        d_g[k] = d * i * (ONE - g * g)
        delta_c[k] = d * f
    if peepholes.size:
        w_i, w_f, into_i, into_f = (
            block(peepholes, 0, n), block(peepholes, 1, n), block(grad_peepholes, 0, n), block(grad_peepholes, 1, n)
        )  # fmt: skip
        for k in range(n):
            delta_c[k] += d_i[k] * w_i[k] + d_f[k] * w_f[k]
            into_i[k] += d_i[k] * before[k]
            into_f[k] += d_f[k] * before[k]


@numba.njit(**INNER)
def no_output_gate(x: Any, u: Any, c: Any, h: Any, saved: Any) -> None:
    """c and h = tanh(c), in place."""
    n = c.size
    x_i, x_f, x_g = block(x, 0, n), block(x, 1, n), block(x, 2, n)
    u_i, u_f, u_g = block(u, 0, n), block(u, 1, n), block(u, 2, n)
    i_t, f_t, g_t = block(saved, 0, n), block(saved, 1, n), block(saved, 2, n)
    for k in range(n):
        i_t[k] = sigmoid(x_i[k] + u_i[k])
        f_t[k] = sigmoid(x_f[k] + u_f[k])
        g_t[k] = tanh(x_g[k] + u_g[k])
    for k in range(n):
        c[k] = f_t[k] * c[k] + i_t[k] * g_t[k]
        h[k] = tanh(c[k])


@numba.njit(**INNER)
def no_output_gate_backward(saved: Any, before: Any, h: Any, delta_h: Any, delta_c: Any, grad: Any) -> None:
    """As `lstm_backward`; h is the output after the step."""
    n = before.size
    i_t, f_t, g_t = block(saved, 0, n), block(saved, 1, n), block(saved, 2, n)
    d_i, d_f, d_g = block(grad, 0, n), block(grad, 1, n), block(grad, 2, n)
    for k in range(n):
        delta_c[k] += delta_h[k] * (ONE - h[k] * h[k])
    for k in range(n):
        d, i, f, g = delta_c[k], i_t[k], f_t[k], g_t[k]
        d_i[k] = d * g * i * (ONE - i)
        d_f[k] = d * before[k] * f * (ONE - f)
        d_g[k] = d * i * (ONE - g * g)
        delta_c[k] = d * f


@numba.njit(**INNER)
def gru(x: Any, u: Any, h: Any, saved: Any) -> None:
    """h in place, the reset gate after the product; u_n itself is saved too."""
    n = h.size
    x_r, x_z, x_n = block(x, 0, n), block(x, 1, n), block(x, 2, n)
    u_r, u_z, u_n = block(u, 0, n), block(u, 1, n), block(u, 2, n)
    r_t, z_t, n_t, q_t = block(saved, 0, n), block(saved, 1, n), block(saved, 2, n), block(saved, 3, n)
    for k in range(n):
        r_t[k] = sigmoid(x_r[k] + u_r[k])
        z_t[k] = sigmoid(x_z[k] + u_z[k])
        q_t[k] = u_n[k]
    for k in range(n):
        new = tanh(x_n[k] + r_t[k] * q_t[k])
        n_t[k] = new
        h[k] = new + z_t[k] * (h[k] - new)


@numba.njit(**INNER)
def gru_backward(saved: Any, before: Any, delta: Any, grad: Any, grad_u_n: Any) -> None:
    """From the gradient of h: those of x and of u_n; what passes the gates to the h before replaces
    delta."""
    n = before.size
    r_t, z_t, n_t, q_t = block(saved, 0, n), block(saved, 1, n), block(saved, 2, n), block(saved, 3, n)
    d_r, d_z, d_n = block(grad, 0, n), block(grad, 1, n), block(grad, 2, n)
    for k in range(n):
        d, z, new = delta[k], z_t[k], n_t[k]
        d_z[k] = d * (before[k] - new) * z * (ONE - z)
        d_n[k] = d * (ONE - z) * (ONE - new * new)
        delta[k] = d * z
    for k in range(n):
        r = r_t[k]
        grad_u_n[k] = d_n[k] * r
        d_r[k] = d_n[k] * q_t[k] * r * (ONE - r)


@numba.njit(**INNER)
def no_reset_gate(x: Any, u: Any, h: Any, saved: Any) -> None:
    """h in place."""
    n = h.size
    x_z, x_n, u_z, u_n = block(x, 0, n), block(x, 1, n), block(u, 0, n), block(u, 1, n)
    z_t, n_t = block(saved, 0, n), block(saved, 1, n)
    for k in range(n):
        z, new = sigmoid(x_z[k] + u_z[k]), tanh(x_n[k] + u_n[k])
        z_t[k], n_t[k] = z, new
        h[k] = new + z * (h[k] - new)


@numba.njit(**INNER)
def no_reset_gate_backward(saved: Any, before: Any, delta: Any, grad: Any) -> None:
    """As `gru_backward`."""
    n = before.size
    z_t, n_t, d_z, d_n = block(saved, 0, n), block(saved, 1, n), block(grad, 0, n), block(grad, 1, n)
    for k in range(n):
        d, z, new = delta[k], z_t[k], n_t[k]
        d_z[k] = d * (before[k] - new) * z * (ONE - z)
        d_n[k] = d * (ONE - z) * (ONE - new * new)
        delta[k] = d * z


@numba.njit(**INNER)
def gate_state(form: int, x: Any, u: Any, h: Any, saved: Any, gated: Any) -> None:
    """The first half of a step in which a gate multiplies h before the product of the candidate (GRU_BEFORE, MGU)."""
    n = h.size
    for i in range(2 if form == GRU_BEFORE else 1):
        x_g, u_g, gate = block(x, i, n), block(u, i, n), block(saved, i, n)
        for k in range(n):
            gate[k] = sigmoid(x_g[k] + u_g[k])
    gate = block(saved, 0, n)
    for k in range(n):
        gated[k] = gate[k] * h[k]


@numba.njit(**INNER)
def update_state(form: int, x: Any, u_n: Any, h: Any, saved: Any) -> None:
    """The second half, from the candidate's recurrent product: candidate, and h in place."""
    n, last = h.size, 2 if form == GRU_BEFORE else 1
    x_n, n_t, gate = block(x, last, n), block(saved, last, n), block(saved, last - 1, n)
    for k in range(n):
        n_t[k] = tanh(x_n[k] + u_n[k])
    if form == MGU:
        for k in range(n):
            h[k] += gate[k] * (n_t[k] - h[k])
    else:
        for k in range(n):
            h[k] = n_t[k] + gate[k] * (h[k] - n_t[k])


@numba.njit(**INNER)
def update_state_backward(form: int, saved: Any, before: Any, delta: Any, grad: Any) -> None:
    """Gradients of the candidate's pre-activation and of the mixing gate (without its activation's slope); the gradient
    that reaches the h before past the gates replaces delta."""
    n, last = before.size, 2 if form == GRU_BEFORE else 1
    n_t, gate = block(saved, last, n), block(saved, last - 1, n)
    d_n, d_gate = block(grad, last, n), block(grad, last - 1, n)
    if form == MGU:
        for k in range(n):
            d, new = delta[k], n_t[k]
            d_n[k] = d * gate[k] * (ONE - new * new)
            d_gate[k] = d * (new - before[k])
            delta[k] = d * (ONE - gate[k])
    else:
        for k in range(n):
            d, new = delta[k], n_t[k]
            d_n[k] = d * (ONE - gate[k]) * (ONE - new * new)
            d_gate[k] = d * (before[k] - new)
            delta[k] = d * gate[k]


@numba.njit(**INNER)
def gate_state_backward(form: int, saved: Any, before: Any, delta_gated: Any, delta: Any, grad: Any) -> None:
    """From the gradient of the gated state: those of the gates' pre-activations; its share of delta is added."""
    n = before.size
    gate, d_gate = block(saved, 0, n), block(grad, 0, n)
    if form == GRU_BEFORE:
        z_t, d_z = block(saved, 1, n), block(grad, 1, n)
        for k in range(n):
            d_gate[k] = delta_gated[k] * before[k] * gate[k] * (ONE - gate[k])
            d_z[k] *= z_t[k] * (ONE - z_t[k])
            delta[k] += delta_gated[k] * gate[k]
    else:
        for k in range(n):
            d_gate[k] = (d_gate[k] + delta_gated[k] * before[k]) * gate[k] * (ONE - gate[k])
            delta[k] += delta_gated[k] * gate[k]
