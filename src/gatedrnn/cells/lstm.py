"""Long short-term memory."""

import torch

from gatedrnn.cells.base import LoopCell, Recurrent
from gatedrnn.shapes import State, Step


class LSTMEquations(LoopCell):
    """LSTM with input, forget and output gate; here the forget gate *keeps*.

    i = sigmoid(W_i x + U_i h + b),  f = sigmoid(W_f x + U_f h + b),  o = sigmoid(W_o x + U_o h + b)
    g = tanh(W_g x + U_g h + b),     c = f * c + i * g,               h = o * tanh(c)

    With two biases a gate, as `torch.nn.LSTM`. Hochreiter & Schmidhuber 1997; forget gate after Gers et al. 2000.
    """

    name = "lstm"
    projections = ("input", "forget", "candidate", "output")
    states = 2

    def step(
        self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent
    ) -> tuple[Step, tuple[State, ...]]:
        h, c = state
        i, f, g, o = (x + r for x, r in zip(projected, recurrent(h), strict=True))
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, (h, c)
