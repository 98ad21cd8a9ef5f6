"""Any scan cell as a layer."""

from typing import Any, ClassVar

import torch
from torch.nn.utils.rnn import PackedSequence

from gatedrnn.equations import PositiveScanEquations, ScanEquations, split_gates
from gatedrnn.errors import BackendUnavailable
from gatedrnn.layers.arguments import autocast_dtype, observed
from gatedrnn.layers.gated_scan import gated_scan, has_kernel, scan_in_torch, with_bias
from gatedrnn.layers.graphs import is_proxy
from gatedrnn.layers.kernel_records import SCAN
from gatedrnn.layers.parameters import Weights
from gatedrnn.layers.projected_scan import projected_scan, projects
from gatedrnn.layers.ragged import reversed_resets, zero_masked_steps
from gatedrnn.layers.regularise import DirectionNoise, Noise
from gatedrnn.layers.stack import Path, RecurrentLayer, StateTuple
from gatedrnn.layers.streaming import layer_suffixes, plain_states, plain_weights, scan_weights
from gatedrnn.ops import LOG_ZERO, accumulation_dtype, choose_backend, implementation, log_space_scan, torch_alone
from gatedrnn.shapes import Channels, Flags, Series, State, States, Step

FEW_ROWS, SMALL_PRODUCT = 4, 1 << 19
"""Rows of a stream, and multiply-adds of a layer, up to which a kernel's own products are faster than a library's."""


class ScanLayer(RecurrentLayer):
    """Any scan cell as a layer: one matrix product projects the whole sequence, one scan runs it.

    A subclass names its cell: `cell_class = MyCell`. Arguments as in `RecurrentModule`.
    """

    cell_class: ClassVar[type[ScanEquations]]
    cell: ScanEquations
    bias_init = "time-scales"

    @property
    def backends(self) -> tuple[str, ...]:
        device = self.weight_ih_l0.device
        scans = dict.fromkeys(("reference", choose_backend(device).backend))
        return (*scans, "fused") if self._between_gates_and_scan(self.training) is None else tuple(scans)

    def runs_on(self) -> Path:
        backend, reason = choose_backend(self.weight_ih_l0.device)
        if self.backend not in ("auto", "fused"):
            return Path(f"one linear_scan, backend {self.backend}", f"backend={self.backend!r} asks for it")
        between = self._between_gates_and_scan(self.training)
        if between is None:
            return Path(f"one kernel for gates and scan, backend {backend}", reason)
        return Path(f"one linear_scan, backend {backend}", f"{between}; {reason}")

    def _between_gates_and_scan(self, training: bool) -> str | None:
        """Why gates and scan are not one kernel; None if they are."""
        if not has_kernel(self.cell, self.weight_ih_l0.device):
            return f"no kernel computes the gates of {self.cell.name} here"
        if self.zoneout:
            return "zoneout stands between gates and scan"
        if self.state_dropout and training:
            return "state_dropout stands between gates and scan"
        return None

    def _direction(
        self, x: Series, state: StateTuple, weights: Weights, noise: DirectionNoise, mask: Flags | None,
        resets: Flags | None, reverse: bool,
    ) -> tuple[Series, StateTuple]:  # fmt: skip
        if reverse and resets is not None:
            resets = reversed_resets(resets)
        keep = self._keep(noise)
        as_it_is = keep is None and noise.state is None and has_kernel(self.cell, x.device)
        if self.backend == "fused" and not as_it_is:
            raise BackendUnavailable("backend 'fused': something stands between gates and scan; use 'auto'")
        if self.backend == "fused" and torch_alone():
            raise BackendUnavailable("backend 'fused' knows no torch.func transform and no export to ONNX; use 'auto'")
        if self.backend == "fused" or (self.backend == "auto" and as_it_is and not torch_alone()):
            assert self.cell.kernel is not None
            output, last = self._in_one_pass(x, state[0], weights, mask, resets, self.cell.kernel, reverse)
        else:
            projected = self._project(x, weights)
            h0 = state[0].to(accumulation_dtype(projected.dtype))
            output, last = scan_in_torch(
                self.cell, projected, h0, mask, resets, _reset_state(weights, resets), reverse, noise=noise, keep=keep,
                backend=self.backend,
            )  # fmt: skip
        return self._hand_on(output, weights), (last,)

    def _stream(self, x: Step, hx: States | StateTuple | None) -> tuple[Step, StateTuple] | None:
        shapes = self._stream_shapes(x)
        if shapes is None or not projects(self.cell, x.device):
            return None
        names = scan_weights(self.cell, self.bias, self.input_size, self.hidden_size, layer_suffixes(self.num_layers))
        state = self._initial_state(x) if hx is None else plain_states(hx, shapes, x)
        weights = plain_weights(self, names, x.dtype)
        if state is None or weights is None:
            return None
        before = state[0].contiguous()
        if not self._takes_products(x, before):
            return self._step(x, (before,), None)
        assert self.cell.kernel is not None
        matrices, biases = weights[: self.num_layers], weights[self.num_layers :]
        after, kernels = torch.empty_like(before), implementation("cpu", x.device)
        return kernels.stack_step(SCAN[self.cell.kernel], x.contiguous(), matrices, biases, before, after), (after,)

    def _step(self, x: Step, state: StateTuple, noise: Noise | None) -> tuple[Step, StateTuple]:
        if not self._streams(x, noise):
            return super()._step(x, state, noise)
        assert self.cell.kernel is not None
        # Where nothing is to be differentiated, gates and state are one call: a stream waits for every step.
        kernels, before = implementation("cpu", x.device), state[0].contiguous()
        after, layers = torch.empty_like(before), [self._weights(layer, "") for layer in range(self.num_layers)]
        if self._takes_products(x, before):
            matrices = [weights["weight_ih"].contiguous() for weights in layers]
            biases = [weights["bias_ih"] for weights in layers] if self.bias else []
            return kernels.stack_step(SCAN[self.cell.kernel], x.contiguous(), matrices, biases, before, after), (after,)
        for layer, weights in enumerate(layers):
            projected = self._project(x, weights, add_bias=False)
            bias = weights["bias_ih"].to(after.dtype) if self.bias else None
            x = self._hand_on(
                kernels.gated_step(SCAN[self.cell.kernel], projected, bias, before, after, layer), weights
            )
        return x, (after,)

    def _takes_products(self, x: Step, state: State) -> bool:
        """Whether a kernel's own products are faster than a library's: of few rows with small matrices, or where the
        library has one thread too."""
        if self.layer_norm or self.proj_size or x.dtype != state.dtype or autocast_dtype(x.device) is not None:
            return False
        small = len(x) * self.weight_ih_l0.shape[0] * max(self.input_size, self.hidden_size) <= SMALL_PRODUCT
        return len(x) <= FEW_ROWS and (small or torch.get_num_threads() == 1)

    def _streams(self, x: Step, noise: Noise | None) -> bool:
        """Whether a step is a kernel's: on a CPU, without gradients, and with nothing between its parts."""
        plain = noise is None and not self.zoneout and not (self.training and self.dropout)
        half = torch.float16 in (x.dtype, autocast_dtype(x.device))
        if not plain or half or self.backend not in ("auto", "fused") or not projects(self.cell, x.device):
            return False
        return not torch.is_grad_enabled() and not observed(x)

    def _in_one_pass(
        self, x: Series, h0: State, weights: Weights, mask: Flags | None, resets: Flags | None, kernel: str,
        reverse: bool,
    ) -> tuple[Series, State]:  # fmt: skip
        bias, reset_state = weights.get("bias_ih"), _reset_state(weights, resets)
        if self.layer_norm or not projects(self.cell, x.device):
            projected = self._project(x, weights, add_bias=False)
            h0 = h0.to(accumulation_dtype(projected.dtype))
            return gated_scan(projected, bias, h0, mask, resets, reset_state, kernel, reverse)
        # An op is not cast by autocast, as the product in it would be.
        narrow, weight = autocast_dtype(x.device), weights["weight_ih"]
        if narrow is not None and x.dtype != torch.float64:
            x, weight = x.to(narrow), weight.to(narrow)
        h0 = h0.to(accumulation_dtype(x.dtype))
        if not x.transpose(0, 1).is_contiguous():
            x = x.contiguous()
        output, last, _ = projected_scan(x, weight, bias, h0, mask, resets, reset_state, kernel, reverse)
        return output, last


def _reset_state(weights: Weights, resets: Flags | None) -> Channels | None:
    """What a reset brings the state back to, where there are any; None for zeros."""
    return None if resets is None else weights.get("initial_state")


class PositiveScanLayer(ScanLayer):
    """A scan layer whose states are positive, so that the scan over logarithms of its paper can run it as well.

    Args, beside those of `RecurrentModule`:
        log_space: run whole sequences by `gatedrnn.ops.log_space`: slower, and its error grows with the length. For
            fidelity to the paper; needs the activation g, and knows neither resets nor zoneout nor state_dropout.
    """

    cell: PositiveScanEquations

    def __init__(self, *args: Any, log_space: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.log_space = log_space
        if log_space and self.cell.activation != "g":
            raise ValueError(f"log_space needs a positive state: activation 'g', got {self.cell.activation!r}")
        for name in ("zoneout", "state_dropout"):
            if log_space and getattr(self, name):
                raise ValueError(f"{name} makes steps without a logarithm, so log_space cannot run it; leave one out")

    def forward(
        self, input: Series | PackedSequence, hx: States | StateTuple | None = None, *,
        mask: Flags | None = None, resets: Flags | None = None, noise: Noise | None = None,
    ) -> tuple[Any, Any]:  # fmt: skip
        if self.log_space:
            if resets is not None:
                raise ValueError("log_space cannot reset a state: log 0 is infinite; use log_space=False")
            traced = torch.compiler.is_compiling() or torch_alone() or is_proxy(input)
            if hx is not None and not traced and not all(_has_logarithm(h) for h in hx):
                raise ValueError(
                    "log_space needs hx None or positive (0 if it needs no gradient): it takes its logarithm"
                )
        return super().forward(input, hx, mask=mask, resets=resets, noise=noise)

    forward.__doc__ = RecurrentLayer.forward.__doc__

    @property
    def backends(self) -> tuple[str, ...]:
        return () if self.log_space else super().backends

    def runs_on(self) -> Path:
        if self.log_space:
            return Path("the scan over logarithms", "log_space=True asks for the paper's own")
        return super().runs_on()

    def _direction(
        self, x: Series, state: StateTuple, weights: Weights, noise: DirectionNoise, mask: Flags | None,
        resets: Flags | None, reverse: bool,
    ) -> tuple[Series, StateTuple]:  # fmt: skip
        if not self.log_space:
            return super()._direction(x, state, weights, noise, mask, resets, reverse)
        projected = self._project(x, weights, add_bias=False)
        wide = with_bias(projected.to(self._state_dtype(projected)), weights.get("bias_ih"))
        gates = split_gates(len(self.cell.projections), wide)
        log_decay, log_drive = self.cell.log_coefficients(*gates)
        if mask is not None:
            real = mask.unsqueeze(2)
            log_decay, log_drive = torch.where(real, log_decay, 0), torch.where(real, log_drive, LOG_ZERO)
        h, last = log_space_scan(log_decay, log_drive, state[0].to(log_decay.dtype), reverse)
        output = self.cell.output(h) if mask is None else zero_masked_steps(self.cell.output(h), mask)
        return self._hand_on(output.to(projected.dtype), weights), (last,)


def _has_logarithm(h: State) -> bool:
    """Positive; a 0 is left out of the sum, and with it its gradient."""
    return bool((h > 0).all() if h.requires_grad else (h >= 0).all())
