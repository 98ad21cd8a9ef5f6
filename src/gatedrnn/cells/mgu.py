"""Minimal gated unit (Zhou et al. 2016, arXiv:1603.09420)."""

from typing import Never

import torch
from torch import Tensor

from gatedrnn.equations import LoopEquations, Recurrent
from gatedrnn.layers import RecurrentLayer, SingleStep, documented
from gatedrnn.registry import register
from gatedrnn.shapes import State, Step


class MGUEquations(LoopEquations):
    """Minimal gated unit: one gate for update and reset; f *replaces* (with keep=True it keeps).

    f = sigmoid(W_f x + U_f h),  n = tanh(W_n x + U_n (f * h)),  h = (1 - f) * h + f * n

    State h, which is the output; one bias a gate. Zhou et al. 2016 (arXiv:1603.09420). `keep=True` is another cell,
    h = f * h + (1 - f) * n: as f gates the candidate too, no change of sign turns one into the other.
    """

    name = "mgu"
    projections = ("forget", "candidate")

    def __init__(self, keep: bool = False) -> None:
        self.keep = keep
        self.decay_gates = {"forget": 1 if keep else -1}

    def step(self, projected: tuple[Step, ...], state: tuple[State, ...], recurrent: Recurrent) -> tuple[State, ...]:
        (h,) = state
        x_f, x_n = projected
        (h_f,) = recurrent(h, "forget")
        f = torch.sigmoid(x_f + h_f)
        (h_n,) = recurrent(f * h, "candidate")
        n = torch.tanh(x_n + h_n)
        return (f * h + (1 - f) * n,) if self.keep else ((1 - f) * h + f * n,)


@documented
class MGU(RecurrentLayer[Tensor]):
    """Minimal gated unit (Zhou et al. 2016, arXiv:1603.09420); f *replaces*.

    Keyword Args:
        keep: True is the other cell of this name, h = f * h + (1 - f) * n, in which f *keeps*.

    Example:
        >>> layer = MGU(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)
    """

    cell_class = MGUEquations

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: torch.device | str | None = None, dtype: torch.dtype | None = None, *,
        keep: bool = False,
        zoneout: float = 0.0, input_dropout: float = 0.0, state_dropout: float = 0.0, weight_dropout: float = 0.0,
        layer_norm: bool = False, weight_init: str | None = None, bias_init: str | None = None,
        longest_time_scale: float | None = None, **unknown: Never,
    ) -> None:  # fmt: skip
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype,
            zoneout=zoneout, input_dropout=input_dropout, state_dropout=state_dropout, weight_dropout=weight_dropout,
            layer_norm=layer_norm, weight_init=weight_init, bias_init=bias_init,
            longest_time_scale=longest_time_scale, keep=keep, **unknown,
        )  # fmt: skip


@documented
class MGUCell(SingleStep[Tensor]):
    """One step of `MGU`; `keep` as there."""

    layer_class = MGU

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: torch.device | str | None = None,
        dtype: torch.dtype | None = None, *, keep: bool = False,
        weight_init: str | None = None, bias_init: str | None = None, longest_time_scale: float | None = None,
        **unknown: Never,
    ) -> None:  # fmt: skip
        super().__init__(
            input_size, hidden_size, bias, device, dtype, weight_init=weight_init, bias_init=bias_init,
            longest_time_scale=longest_time_scale, keep=keep, **unknown,
        )  # fmt: skip


register(MGU, single_step=MGUCell, variants=({"keep": True},))
