"""A second definition of a cell, independent of torch: its `numpy` method over a sequence, in float64."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gatedrnn.equations import Arrays, Equations, NumpyWeights
from gatedrnn.layers import Wrapper

Array: TypeAlias = NDArray[np.float64]


def run_in_numpy(
    cell: Equations, wrapper: Wrapper, x: Array, weights: NumpyWeights, state: Arrays
) -> tuple[Array, Arrays]:
    """Return the outputs and the last states of one layer in one direction.

    Args:
        cell: equations with the method `numpy`.
        wrapper: the inputs and blocks of its layer.
        x: (batch, time, features).
        weights: parameters as the layer stores them, by torch's names without layer and direction.
        state: the states before the first step, each (batch, size).
    """
    assert cell.numpy is not None
    count, outputs = len(cell.projections), []
    states, last = (state, None) if wrapper.inputs == 1 else (state[:-1], state[-1])
    if wrapper.blocks > 1:
        weights = {**weights, "weight_hh": _from_blocks(weights["weight_hh"], wrapper.blocks)}
    for t in range(x.shape[1]):
        read = x[:, t] if last is None else np.concatenate([x[:, t], last], axis=1)
        last = None if last is None else x[:, t]
        gates = np.split(read @ weights["weight_ih"].T + weights.get("bias_ih", 0), count, axis=1)
        output, states = cell.numpy(tuple(gates), states, weights)
        outputs.append(output)
    series = np.stack(outputs, axis=1)
    if "weight_hr" in weights and not cell.projects_state:
        series = series @ weights["weight_hr"].T
    return series, states if last is None else (*states, last)


def _from_blocks(rows: Array, blocks: int) -> Array:
    """Return the matrix whose rows are 0 outside their blocks."""
    size = rows.shape[1]
    whole = np.zeros((len(rows), blocks * size))
    for number, row in enumerate(rows):
        first = number // size % blocks * size
        whole[number, first : first + size] = row
    return whole
