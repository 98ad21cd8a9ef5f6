"""Small blocks of channels, rotated and reflected by the input."""

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from gatedrnn.cells.base import Cell, Layer, register
from gatedrnn.equations import Arrays, BlockKernel, BlockScanEquations, NumpyStep, NumpyWeights
from gatedrnn.shapes import Series

SIZES = (2, 3, 4)


class BlockOrthogonalEquations(BlockScanEquations):
    """Blocks of k channels, turned by an orthogonal matrix that the input chooses; d *keeps*."""

    name = "block-orthogonal"
    decay_gates = {"decay": 1}
    clamped_decay = True
    begins_keeping = 0.5
    learns_initial_state = True
    kernel = BlockKernel("orthogonal")

    def __init__(self, block_size: int = 2) -> None:
        if block_size not in SIZES:
            raise ValueError(f"block_size must be one of {', '.join(map(str, SIZES))}, got {block_size!r}")
        self.block_size = block_size
        turns = ("turn",) if block_size == 2 else ("reflect", *(f"axis-{i + 1}" for i in range(block_size)))
        self.projections = ("candidate", "decay", *turns)
        self.candidates, self.straight_through = ("candidate", *turns), turns[:1]

    def coefficients(self, *projected: Series) -> tuple[Tensor, Series]:
        v, decay, *turns = projected
        d = decay.clamp(0, 1)
        blocks = [x.unflatten(-1, (self.block_size, -1)) for x in turns]
        matrix = _rotation(*blocks) if self.block_size == 2 else _reflections(*blocks)
        return d.unflatten(-1, (self.block_size, 1, -1)) * matrix, (1 - d) * v

    def numpy(self, gates: Arrays, state: Arrays, weights: NumpyWeights) -> NumpyStep:
        (v, d, *turns), (h,) = gates, state
        d, after, size = np.minimum(np.maximum(d, 0), 1), np.empty_like(h), self.block_size
        for row, n in np.ndindex(len(h), h.shape[1] // size):
            block = slice(n, None, h.shape[1] // size)
            if size == 2:
                angle, mirror = turns[0][row, block]
                turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
                turn = turn @ np.diag([1, 1 if mirror > 0 else -1])
            else:
                turn = np.eye(size)
                for reflect, axis in zip(turns[0][row, block][::-1], turns[:0:-1], strict=True):
                    u = axis[row, block] / np.linalg.norm(axis[row, block])
                    turn = (np.eye(size) - 2 * (reflect > 0) * np.outer(u, u)) @ turn
            after[row, block] = d[row, block] * (turn @ h[row, block]) + (1 - d[row, block]) * v[row, block]
        return after, (after,)


def _rotation(turn: Tensor) -> Tensor:
    """Return Q, (..., 2, 2, blocks), from (..., 2, blocks): an angle, and a number whose sign mirrors an axis."""
    angle, mirror = turn.unbind(-2)
    # Straight-through estimator (Bengio et al. 2013, arXiv:1308.3432): a sign has no gradient, that of tanh is taken.
    soft = torch.tanh(mirror)
    # The difference is exactly 0: the sign stays one, to the last digit.
    # Not torch.sign, which is 0 at 0: an axis that is set to 0 would be forgotten.
    s = torch.where(mirror > 0, 1.0, -1.0).to(turn.dtype) + (soft - soft.detach())
    cos, sin = torch.cos(angle), torch.sin(angle)
    return torch.stack([torch.stack([cos, -s * sin], dim=-2), torch.stack([sin, s * cos], dim=-2)], dim=-3)


def _reflections(reflect: Tensor, *axes: Tensor) -> Tensor:
    """Return Q, (..., k, k, blocks), from k axes of reflections and the numbers whose signs switch these on."""
    soft = torch.sigmoid(reflect)
    # Straight-through estimator (Bengio et al. 2013, arXiv:1308.3432), as in `_rotation`.
    is_on = torch.where(reflect > 0, 1.0, 0.0).to(reflect.dtype) + (soft - soft.detach())
    size, blocks = reflect.shape[-2:]
    matrix = torch.eye(size, dtype=reflect.dtype, device=reflect.device).unsqueeze(-1).expand(size, size, blocks)
    for i, axis in enumerate(axes):
        # `normalize` divides by 1e-12 at least: an axis of zeros reflects nothing, and makes no NaN.
        u = normalize(axis, dim=-2).unsqueeze(-3)
        along = (matrix * u).sum(-2, keepdim=True)  # Q u
        matrix = matrix - 2 * is_on[..., i, None, None, :] * along * u
    return matrix


class BlockOrthogonalRNN(Layer[Tensor]):
    """Blocks of channels rotated and reflected by the input, for state tracking; d *keeps*.

    Equations:
        d = clamp(W_d x, 0, 1),  h = d * (Q h) + (1 - d) * W_v x

    With blocks of k = 2 channels, Q = rotation(W_t x) · diag(1, s), with s = -1 or 1, the sign of a second half of W_t
    x. With k = 3 or 4, Q = H_1 ... H_k, each H_i = I - 2 b_i u_i u_i^T with u_i = W_i x of length 1 and b_i = 0 or 1,
    the sign of W_b x: any orthogonal matrix is such a product of k reflections. s and b_i have no derivative: in its
    place is that of tanh and of sigmoid (a straight-through estimator).

    Where d is 1 nothing enters and Q keeps the block's length exactly: a block counts along a group, as `SignedMinGRU`
    does along -1, 1. Neighbouring channels belong to different blocks: channel i · (hidden_size / k) + n is the i-th of
    block n.

    Args:
        input_size: features of the input, 1 or more.
        hidden_size: channels of the state, a multiple of block_size.
        num_layers: stacked layers, 1 or more.
        bias: False for no biases.
        batch_first: True for (batch, time, features) in and out, False for (time, batch, features).
        dropout: rate at which outputs between layers are zeroed in training, 0 to 1.
        bidirectional: True adds a second direction, from the last step to the first.
        proj_size: features that the output is projected to; 0 for no projection.
        device, dtype: those of the parameters; a floating-point dtype.
        zoneout: rate at which a step leaves a channel of the state as it was, 0 to below 1.
        input_dropout: rate at which a feature of a layer's input is zeroed for a whole sequence, 0 to below 1.
        state_dropout: rate at which a channel of what a step adds is zeroed for a whole sequence, 0 to below 1.
        weight_dropout: 0, for there is no `weight_hh_l0`.
        layer_norm: True normalises the projection of the input, gate by gate.
        weight_init, bias_init: initialisation by name; "fan-in" and "time-scales" if None.
        longest_time_scale: the longest time scale of the biases, 2 steps or more; 64 steps if None.

    Keyword Args:
        block_size: k: 2 (a rotation and a mirror), 3 or 4 (as many reflections).

    Weights:
        weight_ih_l0: (gates · hidden_size, input_size), rows of candidate, decay, turn (3 gates), or of candidate,
            decay, reflect and k axes (3 + k).
        bias_ih_l0: (gates · hidden_size,), unless `bias` is False.
        initial_state_l0: (hidden_size,), h before the first step and after a reset.
        weight_hr_l0: (proj_size, hidden_size), with `proj_size`.
        weight_norm_l0: (gates · hidden_size,), with `layer_norm`.

    Initialisation:
        Weights are uniform within 1/sqrt(columns) ("fan-in"); half of the blocks begin with d = 1, the biases of the
        others spread d over time scales of 2 to 64 steps, others are 0 ("time-scales"). The initial state is normal
        with a standard deviation of 0.5.

    Inputs: input, hx
        input: (time, batch, input_size), or (batch, time, input_size) with `batch_first`, or (time, input_size), or a
            `PackedSequence`.
        hx: the state before the first step; None for `initial_state_l0`.
        mask, resets, dropout_masks, wide_state: keyword arguments, see `RecurrentLayer.forward`.

    Outputs: output, h_n
        output: like input, with directions · (proj_size or hidden_size) features.
        h_n: the state after the last step, in the form of hx.

    State:
        h: (L, batch, hidden_size), the output. L = num_layers · directions.

    Example:
        >>> layer = BlockOrthogonalRNN(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)

    Source:
        Reflections that the input chooses: Siems et al. 2025, arXiv:2502.10297; straight-through estimator: Bengio et
        al. 2013, arXiv:1308.3432.
    """

    cell_class = BlockOrthogonalEquations


class BlockOrthogonalRNNCell(Cell[Tensor]):
    """One step of `BlockOrthogonalRNN`, with the same equations and weights.

    Args:
        input_size: features of the input, 0 or more.
        hidden_size: channels of the state, 0 or more, a multiple of block_size.
        bias: False for no biases.
        device, dtype: those of the parameters; a floating-point dtype.
        weight_init, bias_init, longest_time_scale: initialisation, as in `BlockOrthogonalRNN`.
        block_size: as in `BlockOrthogonalRNN`.

    Weights:
        weight_ih: (gates · hidden_size, input_size), rows of candidate, decay, turn (3 gates), or of candidate, decay,
            reflect and k axes (3 + k).
        bias_ih: (gates · hidden_size,), unless `bias` is False.
        initial_state: (hidden_size,), h before the first step and after a reset.

    Inputs: input, hx
        input: (batch, input_size) or (input_size,).
        hx: the state before, h (batch, hidden_size), without batch for one input; None for `initial_state_l0`.

    Outputs: hx
        hx: the state after, in the form of hx.

    Example:
        >>> cell = BlockOrthogonalRNNCell(3, 8)
        >>> h = cell(torch.randn(2, 3))
        >>> tuple(h.shape)
        (2, 8)
    """

    layer_class = BlockOrthogonalRNN


register(
    BlockOrthogonalRNN,
    single_step=BlockOrthogonalRNNCell,
    variants=(
        {"block_size": 3},
        {"block_size": 4},
    ),
)
