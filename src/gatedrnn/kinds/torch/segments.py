"""Rows of unequal length for torch's kernel: padded batches left-aligned, and the segments between resets."""

from typing import NamedTuple

import torch
from torch import Tensor

from gatedrnn.kinds.definition import reversed_resets
from gatedrnn.shapes import Flags, Series, State


def left_aligned(mask: Flags) -> Tensor:
    """Return the order of steps that puts each row's real ones first, (B, T)."""
    return torch.argsort((~mask).to(torch.uint8), dim=1, stable=True)


def reorder(series: Series, order: Tensor) -> Series:
    """Sort each row's steps by `order`."""
    return series.gather(1, order.unsqueeze(2).expand(-1, -1, series.shape[2]))


class Segments(NamedTuple):
    """The segments between resets of all rows, each a row of one packed sequence, in the order in which steps run."""

    steps: Tensor
    """(steps in all,): the index of each packed step in the flattened (batch · time)."""
    batch_sizes: Tensor
    """(longest,), on the CPU: segments that have a first step, a second, ..."""
    first: Tensor
    """(segments,): the batch row whose state a segment starts from, or -1 for the layer's initial state."""
    last: Tensor
    """(batch,): the last segment of each row, -1 where the row ends on a reset, -2 where no step was real."""

    @classmethod
    def between(cls, mask: Flags, resets: Flags, reverse: bool) -> "Segments":
        """Find the segments of real steps. A reset acts before its step, whether the step is real or not."""
        if reverse:
            mask, resets = mask.flip(1), reversed_resets(resets).flip(1)
        batch, time = mask.shape
        rows = torch.arange(batch, device=mask.device).unsqueeze(1).expand(batch, time)
        number = resets.long().cumsum(1)  # within its row; 0 before the first reset
        # One number for row and segment, since a row has `time` resets at most.
        segment_key = (rows * (time + 1) + number)[mask]
        numbers, segment, lengths = torch.unique(segment_key, return_inverse=True, return_counts=True)
        # Packed data needs its longest sequence first; stable, so that equal lengths keep one order on every device.
        order = torch.argsort(lengths, descending=True, stable=True)
        rank = torch.empty_like(order)
        rank[order] = torch.arange(len(order), device=order.device)
        # Segments come row by row and each in the order of its steps, so a step's index in its own is a difference.
        step_in_segment = torch.arange(len(segment), device=segment.device) - (lengths.cumsum(0) - lengths)[segment]
        counts = torch.bincount(step_in_segment, minlength=1)
        packed_index = (counts.cumsum(0) - counts)[step_in_segment] + rank[segment]
        columns = torch.arange(time, device=mask.device).expand(batch, time)[mask]
        flat = rows[mask] * time + ((time - 1 - columns) if reverse else columns)
        steps = torch.empty_like(flat)
        steps[packed_index] = flat
        row, cuts_before = numbers // (time + 1), numbers % (time + 1)
        final = torch.arange(batch, device=mask.device) * (time + 1) + number[:, -1]
        ends_in = torch.full_like(final, -1)
        if len(numbers):
            where = torch.searchsorted(numbers, final).clamp(max=len(numbers) - 1)
            ends_in = torch.where(numbers[where] == final, rank[where], -1)
        return cls(
            # torch reads `batch_sizes` on the CPU, whatever the device of the data.
            steps, counts.cpu(), torch.where(cuts_before == 0, row, -1)[order],
            torch.where((ends_in < 0) & (number[:, -1] == 0), -2, ends_in),
        )  # fmt: skip

    def start(self, hx: State) -> State:
        """Each segment's state before its first step."""
        return torch.where((self.first >= 0).unsqueeze(1), hx[self.first.clamp(min=0)], 0)

    def end(self, last: State, hx: State) -> State:
        """Each row's state after its last step."""
        final = torch.where((self.last >= 0).unsqueeze(1), last[self.last.clamp(min=0)], 0)
        return torch.where((self.last == -2).unsqueeze(1), hx, final)

    def spread(self, packed: Tensor, batch: int, time: int) -> Series:
        """The packed outputs as (batch, time, features), 0 elsewhere."""
        padded = packed.new_zeros(batch * time, packed.shape[1])
        return padded.index_copy(0, self.steps, packed).unflatten(0, (batch, time))
