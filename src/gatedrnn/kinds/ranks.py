"""Scans over a sequence that is cut along time over processes, a piece each, the first piece in the first process.

A piece maps the state before it to the one after it, h -> A h + b: A is the product of its decays (or blocks), b its
last state from zero. Every process scans its piece from zero, all exchange A and b, and each computes the state before
its piece and adds it, times the product of decays up to t, to step t. The exchange is one all-gather of the elements of
A and b, and one more in the backward pass.

Every process of the group calls these functions in the same order.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from gatedrnn.equations import applied
from gatedrnn.kinds.block.op import block_scan
from gatedrnn.kinds.scan.op import linear_scan
from gatedrnn.shapes import Channels, Flags, Series, State


class TimeRanks:
    """The processes that a sequence is cut over.

    Args:
        group: processes in the order of time; all if None.
    """

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        self.group = group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)

    def linear_scan(
        self, decay: Series, drive: Series, h0: State | None = None, *, resets: Flags | None = None,
        reset_state: Channels | None = None, reverse: bool = False, backend: str = "auto",
    ) -> tuple[Series, State]:  # fmt: skip
        """`gatedrnn.linear_scan` of the whole sequence, of which each process has a piece. Differentiable once.

        Args:
            decay, drive, resets: this process's piece, of any length.
            h0, reset_state: the same in every process.

        Returns:
            The states of the piece; and the last state of the whole sequence, the same in every process: the gradient
            that reaches it is the sum over processes. The gradient of `h0` is that of the process where the run begins,
            0 in all others.
        """
        if resets is not None:  # drops the state before its step, and adds what the reset state gives to the drive
            cut = resets.unsqueeze(2)
            drive = drive if reset_state is None else torch.where(cut, drive + decay * reset_state, drive)
            decay = torch.where(cut, 0, decay)
        h, end = linear_scan(decay, drive, reverse=reverse, backend=backend)
        ones, zeros = torch.ones_like(end), torch.zeros_like(drive)
        products, product = linear_scan(decay, zeros, ones, reverse=reverse, backend=backend)
        start = torch.zeros_like(end) if h0 is None else h0.to(end.dtype)
        incoming, last = self.between(product[:, None, None], end.unsqueeze(1), start.unsqueeze(1), reverse)
        return (h + products * incoming).to(h.dtype), last.squeeze(1)

    def block_scan(
        self, transition: Tensor, drive: Series, h0: State | None = None, *, resets: Flags | None = None,
        reset_state: Channels | None = None, reverse: bool = False, backend: str = "auto",
    ) -> tuple[Series, State]:  # fmt: skip
        """`gatedrnn.ops.block_scan` of the whole sequence; arguments and results as in `linear_scan`."""
        size = transition.shape[2]

        def blocks(state: Tensor) -> Tensor:
            return state.unflatten(-1, (size, -1))

        if resets is not None:
            reached = None if reset_state is None else applied(transition, blocks(reset_state)).flatten(2)
            drive = drive if reached is None else torch.where(resets.unsqueeze(2), drive + reached, drive)
            transition = torch.where(resets[..., None, None, None], 0, transition)
        h, end = block_scan(transition, drive, reverse=reverse, backend=backend)
        nothing, columns, products = torch.zeros_like(drive), [], []
        for component in range(size):
            unit = torch.zeros_like(blocks(end))
            unit[:, component] = 1
            column, product = block_scan(transition, nothing, unit.flatten(1), reverse=reverse, backend=backend)
            columns.append(blocks(column))
            products.append(blocks(product))
        start = torch.zeros_like(end) if h0 is None else h0
        product = torch.stack(products, dim=2)  # (batch, k, k, blocks)
        incoming, last = self.between(product, blocks(end), blocks(start), reverse)
        added = torch.stack([column * incoming[:, None, None, i] for i, column in enumerate(columns)]).sum(0)
        return h + added.flatten(2), last.flatten(1)

    def between(self, product: Tensor, end: Tensor, start: Tensor, reverse: bool) -> tuple[Tensor, Tensor]:
        """The state before this process's piece, and the one after the last piece.

        Args:
            product: A of the piece, (batch, k, k, blocks).
            end: b of it, (batch, k, blocks).
            start: the state before the first piece (the last one if reversed), (batch, k, blocks).
        """
        incoming, last = _Between.apply(product.contiguous(), end.contiguous(), start, self, reverse)
        return incoming, last

    def cut_after(self, resets: Flags) -> Flags:
        """Whether there is a cut between this process's last step and the next one's first, (batch,); no gradient."""
        firsts = self.gathered(resets[:, 0].to(torch.uint8))
        return torch.zeros_like(resets[:, 0]) if self.rank == self.size - 1 else firsts[self.rank + 1].bool()

    def gathered(self, x: Tensor) -> Tensor:
        """The tensors of all processes, (processes, …)."""
        pieces = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(self.size)]
        dist.all_gather(pieces, x.contiguous(), self.group)
        return torch.stack(pieces)

    def order(self, reverse: bool) -> list[int]:
        """The processes in the order of the run."""
        return list(range(self.size))[:: -1 if reverse else 1]


class _Between(torch.autograd.Function):
    """`TimeRanks.between`; every process computes the same from the gathered pieces."""

    @staticmethod
    def forward(
        ctx: Any, product: Tensor, end: Tensor, start: Tensor, ranks: TimeRanks, reverse: bool
    ) -> tuple[Tensor, Tensor]:
        sent = torch.cat([product.flatten(1, 2), end], dim=1)  # (batch, k·k + k, blocks)
        gathered, size = ranks.gathered(sent), product.shape[1]
        products, ends = gathered[:, :, : size * size].unflatten(2, (size, size)), gathered[:, :, size * size :]
        states, state = start.new_empty(ranks.size, *start.shape), start
        for rank in ranks.order(reverse):
            states[rank] = state
            state = applied(products[rank], state) + ends[rank]
        ctx.save_for_backward(products, states)
        ctx.ranks, ctx.reverse = ranks, reverse
        return states[ranks.rank].clone(), state

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_incoming: Tensor, grad_last: Tensor) -> tuple[Tensor | None, ...]:
        products, states = ctx.saved_tensors
        ranks, order = ctx.ranks, ctx.ranks.order(ctx.reverse)
        gathered = ranks.gathered(torch.stack([grad_incoming, grad_last], dim=1))  # (processes, batch, 2, …)
        after = gathered[:, :, 1].sum(0)  # the gradient of the state after a piece, from the last one on
        grad_end = after
        for rank in reversed(order):
            if rank == ranks.rank:
                grad_end = after
            after = applied(products[rank].transpose(-3, -2), after) + gathered[rank, :, 0]
        grad_product = grad_end.unsqueeze(-2) * states[ranks.rank].unsqueeze(-3)
        return grad_product, grad_end, after if ranks.rank == order[0] else torch.zeros_like(after), None, None
