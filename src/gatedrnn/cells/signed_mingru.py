"""Minimal GRU with a decay that may change the state's sign (after Grazzi et al. 2025, arXiv:2411.12537)."""

from typing import Never

import torch
from torch import Tensor

from gatedrnn.equations import ScanEquations
from gatedrnn.layers import RecurrentLayer, SingleStep, documented
from gatedrnn.registry import register
from gatedrnn.shapes import Series


class SignedMinGRUEquations(ScanEquations):
    """Minimal GRU with a decay of either sign, from the input only: a *keeps*, and at -1 and 1 it keeps all.

    a = clamp(W_a x, -1, 1),  h = a * h + (1 - |a|) * W_v x

    State h, which is the output; one bias a gate; the state before the first step is learned. Nothing enters a channel
    that keeps all of itself, so a state that counts (-1, 1, -1 ...) does not drift, and only a state that is not 0 can.
    The clamp has its ordinary derivative, 0 outside. After Grazzi et al. 2025 (arXiv:2411.12537), who show that a decay
    within (0, 1) cannot tell an even count from an odd one, and one within [-1, 1] can.
    """

    name = "signed-mingru"
    projections = ("candidate", "decay")
    decay_gates = {"decay": 1}
    clamped_decay = True
    learns_initial_state = True

    def coefficients(self, *projected: Series) -> tuple[Series, Series]:
        v, decay = projected
        a = decay.clamp(-1, 1)
        return a, (1 - a.abs()) * v


@documented
class SignedMinGRU(RecurrentLayer[Tensor]):
    """minGRU with a decay from -1 to 1, for state tracking, run by a scan; a *keeps*.

    The state before the first step, and after a reset, is a parameter (`initial_state_l0`). After Grazzi et al. 2025
    (arXiv:2411.12537).

    Example:
        >>> layer = SignedMinGRU(3, 8, batch_first=True)
        >>> output, h_n = layer(torch.randn(2, 5, 3))
        >>> tuple(output.shape)
        (2, 5, 8)
    """

    cell_class = SignedMinGRUEquations

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: torch.device | str | None = None, dtype: torch.dtype | None = None, *,
        zoneout: float = 0.0, input_dropout: float = 0.0, state_dropout: float = 0.0, weight_dropout: float = 0.0,
        layer_norm: bool = False, weight_init: str | None = None, bias_init: str | None = None,
        longest_time_scale: float | None = None, **unknown: Never,
    ) -> None:  # fmt: skip
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype,
            zoneout=zoneout, input_dropout=input_dropout, state_dropout=state_dropout, weight_dropout=weight_dropout,
            layer_norm=layer_norm, weight_init=weight_init, bias_init=bias_init,
            longest_time_scale=longest_time_scale, **unknown,
        )  # fmt: skip


@documented
class SignedMinGRUCell(SingleStep[Tensor]):
    """One step of `SignedMinGRU`."""

    layer_class = SignedMinGRU

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: torch.device | str | None = None,
        dtype: torch.dtype | None = None, *, 
        weight_init: str | None = None, bias_init: str | None = None, longest_time_scale: float | None = None,
        **unknown: Never,
    ) -> None:  # fmt: skip
        super().__init__(
            input_size, hidden_size, bias, device, dtype, weight_init=weight_init, bias_init=bias_init,
            longest_time_scale=longest_time_scale, **unknown,
        )  # fmt: skip


register(SignedMinGRU, single_step=SignedMinGRUCell)
