"""A model of your own beside the cells: a temporal convolutional network, entered by the file's name.

    gatedrnn compare --cells gru examples/own_contender.py:TCN --match params

A contender is called with sizes and gives a module that maps (batch, time, features) to the same shape; embedding,
pooling and head are the same for all. `hidden_size` is what is solved for, so that parameters match.

Layers are dilated causal convolutions with a residual connection, after Bai, Kolter and Koltun 2018, arXiv:1803.01271.
"""

from torch import Tensor, nn
from torch.nn.functional import pad, relu

KERNEL = 3


class Convolution(nn.Module):
    """x + project(relu(convolve(norm(x)))): each step sees KERNEL steps, `dilation` apart, and none after itself."""

    def __init__(self, features: int, hidden_size: int, dilation: int, dropout: float) -> None:
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(features), nn.Dropout(dropout)
        self.convolve = nn.Conv1d(features, hidden_size, KERNEL, dilation=dilation)
        self.project = nn.Linear(hidden_size, features)
        self.before = (KERNEL - 1) * dilation

    def forward(self, x: Tensor) -> Tensor:
        inner = self.convolve(pad(self.norm(x).transpose(1, 2), (self.before, 0)))
        return x + self.dropout(self.project(relu(inner).transpose(1, 2)))


class TCN(nn.Module):
    """Two convolutions a layer, with dilations 1, 2, 4, …"""

    def __init__(
        self, features: int, hidden_size: int, layers: int, *, bidirectional: bool, dropout: float
    ) -> None:  # fmt: skip
        super().__init__()
        if bidirectional:
            raise ValueError("its convolutions are causal; leave out --bidirectional")
        self.layers = nn.Sequential(
            *(Convolution(features, hidden_size, 2**n, dropout) for n in range(2 * layers))
        )  # fmt: skip

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        # Padding is on the right, and no step sees what comes after it.
        output: Tensor = self.layers(x)
        return output
