"""Layers shared out over processes (DDP, FSDP2) learn as one process does."""

import faulthandler
from functools import partial

import pytest
import torch
import torch.distributed as dist
from tolerances import assert_equal_within
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.func import functional_call
from torch.multiprocessing import spawn
from torch.nn.parallel import DistributedDataParallel

from gatedrnn.registry import CELLS

PROCESSES, STEPS, ROWS = 2, 3, 4
NARROW = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
SHARDED = {"fsdp": fully_shard, "fsdp-bfloat16": partial(fully_shard, mp_policy=NARROW)}


class Model(nn.Module):
    """A layer over sequences, and what makes numbers of its outputs."""

    def __init__(self, layer):
        super().__init__()
        torch.manual_seed(0)
        self.layer = layer(6, 8, num_layers=2, batch_first=True)
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.layer(x)[0])


def narrowed(model):
    """A call of the model with its parameters rounded to bfloat16, as FSDP's mixed precision has it."""
    return lambda x: functional_call(model, {k: p.bfloat16() for k, p in model.named_parameters()}, x.bfloat16())


def losses(model, rows, call):
    """The loss on these rows at each of a few steps of training."""
    torch.manual_seed(1)
    x = torch.randn(ROWS, 7, 6)[rows]
    optimizer, found = torch.optim.SGD(model.parameters(), lr=0.5), []
    for _ in range(STEPS):
        loss = (call(x) - x[..., :1]).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.detach())
    return torch.stack(found)


def shared_out(rank, folder, sharding):
    faulthandler.dump_traceback_later(150, exit=True)  # a collective that waits for ever says where
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=PROCESSES)
    found = {name: losses_of_all(name, sharding, rank) for name in CELLS}
    if rank == 0:
        torch.save(found, f"{folder}/losses.pt")
    dist.barrier()
    dist.destroy_process_group()


def losses_of_all(name, sharding, rank):
    """The sum of all processes' losses.

    The model ends here: if DDP holds the process group last, the group's threads are joined under Python's lock, for
    which one of them may wait.
    """
    model, share = Model(CELLS[name].layer), slice(rank * ROWS // PROCESSES, (rank + 1) * ROWS // PROCESSES)
    if sharding == "ddp":
        model = DistributedDataParallel(model)
    else:
        SHARDED[sharding](model.layer)
        SHARDED[sharding](model)
    found = losses(model, share, model)
    dist.all_reduce(found)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("sharding", ["ddp", *SHARDED])
def test_every_layer_learns_as_one_process_does(tmp_path, sharding):
    spawn(shared_out, (str(tmp_path), sharding), PROCESSES)
    dtype = torch.bfloat16 if sharding == "fsdp-bfloat16" else torch.float32
    for name, found in torch.load(tmp_path / "losses.pt").items():
        model = Model(CELLS[name].layer)
        expected = losses(model, slice(None), narrowed(model) if dtype == torch.bfloat16 else model)
        assert expected[-1] < expected[0]
        assert_equal_within(found / PROCESSES, expected.double(), dtype, name)
