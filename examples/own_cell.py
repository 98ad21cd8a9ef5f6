"""A cell of your own in every command: `python examples/own_cell.py verify leaky-average`, or compare, train, …"""

import torch

from gatedrnn import RecurrentLayer, register
from gatedrnn.cli.app import main
from gatedrnn.equations import ScanEquations


class LeakyAverageEquations(ScanEquations):
    """r = sigmoid(W_r x),  h = (1 - r) * h + r * tanh(W_v x); r *replaces*."""

    name = "leaky-average"
    projections = ("candidate", "rate")  # the blocks of rows of weight_ih
    decay_gates = {"rate": -1}  # a larger bias of this gate keeps less

    def coefficients(self, candidate, rate):
        r = torch.sigmoid(rate)
        return 1 - r, r * torch.tanh(candidate)


@register
class LeakyAverage(RecurrentLayer):
    cell_class = LeakyAverageEquations


if __name__ == "__main__":
    main()
