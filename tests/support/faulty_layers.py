"""A sound layer in a few lines, and copies of it with one fault each."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

FAULTS: dict[str, str] = {
    "state not carried": "in two chunks",
    "state carried twice": "in two chunks",
    "state of the step before the last": "in two chunks",
    "state ignored by a longer prefill": "in two chunks",
    "state in half precision": "in two chunks",
    "state as a logarithm": "in two chunks",
    "a bias at the first step of every call": "in two chunks",
    "positions that begin anew at every call": "in two chunks",
    "a block's padding in the state": "in two chunks",
    "a buffer of 500 steps": "any length",
    "gradient of the state lost": "in two chunks, gradients",
    "gradient of the state doubled": "in two chunks, gradients",
    "state changed in place": "inputs and state left as they are",
    "inputs changed in place": "inputs and state left as they are",
    "state kept in the module": "the same again",
    "dropout in evaluation": "the same again",
    "not a number": "finite",
    "a flag of row 0 for the batch": "a row alone",
    "rows mixed": "a row alone",
    "gradient mixed over rows": "a row alone, gradients",
    "the first row is another": "rows in another order",
    "steps counted by row 0": "a fresh row beside a running one",
    "the next step read": "causality",
    "memory read as if it were contiguous": "strides",
    "a copy without its scale": "deep copy",
    "a pickle without its scale": "pickle",
    "a weight that is not loaded": "save and load",
    "another gate in training": "training mode",
    "mask unused": "padded on the left",
    "decay applied at masked steps": "on after padding on the right",
    "padding in a convolution": "padded on the left",
    "the mask of row 0 for all rows": "rows of unequal length, right",
    "gradient through padding": "padded on the right, gradients",
    "the resets of row 0 for all rows": "resets",
    "a second state not reset": "resets",
    "a reset one step late": "resets",
    "packed rows left in their order": "packed",
    "packed states left in their order": "on after packed",
}
"""Faults by name, and the law that names each."""


class ChangedGradient(torch.autograd.Function):
    """The identity, with a gradient that a function changes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.change = change
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.change(grad), None


class Faulty(nn.Module):
    """A gated layer of two states with mask, resets and a convolution over two steps; and what is wrong with it."""

    def __init__(self, input_size: int, hidden_size: int, fault: str = "") -> None:
        super().__init__()
        self.input_size, self.fault = input_size, fault
        self.gates = nn.Linear(input_size, 3 * hidden_size)
        self.before = nn.Linear(input_size, hidden_size)
        self.scale = 1.5
        self.memory: Tensor | None = None

    def forward(
        self, x: Tensor, state: tuple[Tensor, ...] | None = None, mask: Tensor | None = None,
        resets: Tensor | None = None,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:  # fmt: skip
        if isinstance(x, PackedSequence):
            return self.packed(x, state)
        is_ = self.fault.__eq__
        batch, steps, _ = x.shape
        if is_("memory read as if it were contiguous"):
            x = x.as_strided(x.shape, torch.empty(x.shape).stride())
        if is_("inputs changed in place"):
            x.mul_(1.01)
        if is_("a buffer of 500 steps"):
            x = torch.cat([x[:, :500], torch.zeros_like(x[:, 500:])], 1)
        h, c, last, age = state or self.start(x)
        if state is not None:
            if is_("state not carried") or (is_("state ignored by a longer prefill") and steps > 1):
                h, c, last, age = self.start(x)
            if is_("state carried twice"):
                h = 2 * h
            if is_("gradient of the state lost"):
                h = h.detach()
            if is_("gradient of the state doubled"):
                h = ChangedGradient.apply(h, lambda grad: 2 * grad)
            if is_("state changed in place"):
                h = h.mul_(0.5)
            if is_("state as a logarithm"):
                h = h.exp()
        if is_("state kept in the module") and self.memory is not None and len(self.memory) == batch:
            h = h + self.memory
        if mask is None or is_("mask unused"):
            mask = torch.ones(batch, steps, dtype=torch.bool)
        resets = torch.zeros_like(mask) if resets is None else resets
        if is_("the mask of row 0 for all rows"):
            mask = mask[:1].expand(batch, -1)
        if is_("the resets of row 0 for all rows"):
            resets = resets[:1].expand(batch, -1)
        if is_("a reset one step late"):
            resets = resets.roll(1, 1)
        if is_("a flag of row 0 for the batch"):
            x = x * (1 if x[0].mean() > 0 else 0.5)
        if is_("gradient mixed over rows"):
            x = ChangedGradient.apply(x, lambda grad: grad[:1].expand_as(grad))
        if is_("the first row is another"):
            x = torch.cat([x[:1] * (1.1 if batch > 1 else 1), x[1:]])
        if is_("dropout in evaluation"):
            x = nn.functional.dropout(x, 0.2, training=True)
        if is_("the next step read"):
            x = x + 0.1 * torch.cat([x[:, 1:], x[:, -1:]], 1)
        outputs, h_before = [], h
        for t in range(steps):
            real, cut = mask[:, t, None], resets[:, t, None]
            h, last, age = (torch.where(cut, 0, s) for s in (h, last, age))
            c = c if is_("a second state not reset") else torch.where(cut, 0, c)
            h_before, x_t = h, x[:, t]
            candidate, gate, out = self.gates(x_t).chunk(3, 1)
            candidate = candidate + self.before(last)
            if is_("a bias at the first step of every call") and t == 0:
                candidate = candidate + 0.3
            if is_("positions that begin anew at every call"):
                candidate = candidate + 0.1 * t
            gate = gate.sigmoid() if not (is_("another gate in training") and self.training) else gate.tanh()
            counted = age[:1].expand_as(age) if is_("steps counted by row 0") else age
            new_h = gate * h + (1 - gate) * candidate + counted / 10
            new_c = 0.9 * c + candidate.tanh()
            moved = gate * h if is_("decay applied at masked steps") else h
            h, c = torch.where(real, new_h, moved), torch.where(real, new_c, c)
            read = real | torch.ones_like(real) if is_("padding in a convolution") else real
            last, age = torch.where(read, x_t, last), torch.where(real, (age + 1).clamp(max=20), age)
            output = out.sigmoid() * (h + c) * self.scale
            if is_("rows mixed"):
                output = output - 0.1 * output.mean(0)
            if is_("not a number"):
                output = output.sqrt()
            outputs.append(output if is_("gradient through padding") else torch.where(real, output, 0))
        if is_("gradient through padding"):
            whole = torch.stack(outputs, 1)
            shifted = (whole * ~mask[..., None]).sum()
            outputs = list((whole + shifted - shifted.detach()).unbind(1))
        if is_("state of the step before the last"):
            h = h_before
        if is_("a block's padding in the state"):
            h = h * 0.9 ** (-steps % 4)
        if is_("state in half precision"):
            h = h.bfloat16().to(h.dtype)
        if is_("state as a logarithm"):
            h = h.log()
        if is_("state kept in the module"):
            self.memory = h.detach()
        return torch.stack(outputs, 1), (h, c, last, age)

    def start(self, x: Tensor) -> tuple[Tensor, ...]:
        """States of zeros: the gated one, a sum, the last input, and the steps so far."""
        zeros = x.new_zeros(len(x), self.before.out_features)
        return zeros, zeros, x.new_zeros(len(x), x.shape[2]), x.new_zeros(len(x), 1)

    def packed(
        self, x: PackedSequence, state: tuple[Tensor, ...] | None
    ) -> tuple[PackedSequence, tuple[Tensor, ...]]:  # fmt: skip
        padded, lengths = pad_packed_sequence(x, batch_first=True)
        output, states = self(padded, state, torch.arange(padded.shape[1]) < lengths[:, None])
        if self.fault == "packed rows left in their order" and x.sorted_indices is not None:
            output = output[x.sorted_indices]
        if self.fault == "packed states left in their order" and x.sorted_indices is not None:
            states = tuple(s[x.sorted_indices] for s in states)
        return pack_padded_sequence(output, lengths, batch_first=True, enforce_sorted=False), states

    def __deepcopy__(self, memo: dict[int, object]) -> "Faulty":
        return self._copied("a copy without its scale")

    def _copied(self, fault: str) -> "Faulty":
        copied = Faulty(self.input_size, self.before.out_features, self.fault)
        copied.to(self.before.weight.dtype).load_state_dict(nn.Module.state_dict(self))
        copied.memory, copied.training = self.memory, self.training
        copied.scale = 1.0 if self.fault == fault else self.scale
        return copied

    def __getstate__(self) -> dict[str, object]:
        state = self.__dict__.copy()
        return state | {"scale": 1.0} if self.fault == "a pickle without its scale" else state

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        if self.fault == "a weight that is not loaded" and not self.before.weight.any():
            state_dict = {**state_dict, "before.weight": self.before.weight}
        return super().load_state_dict(state_dict, strict, assign)


def making(fault: str) -> Callable[[], Faulty]:
    """A function that makes the layer with a fault, or with none."""

    def make() -> Faulty:
        torch.manual_seed(0)
        return Faulty(3, 4, fault)

    return make
