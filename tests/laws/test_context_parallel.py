"""A sequence that is cut along time over processes, or threads as ranks, gives what one process gives."""

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from functools import partial
from threading import Semaphore, local

import pytest
import torch
import torch.distributed as dist
from covering import over
from layer_laws import CELLS, INPUT_GATED_CELLS, as_tuple, assert_same_run, packed_up, states_of
from paths import axis
from refusals import refused
from tolerances import assert_equal_within
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.multiprocessing import spawn
from torch.nn.utils.rnn import pack_padded_sequence

from gatedrnn import LSTM, QRNN, MinGRU, MinLSTM
from gatedrnn.kinds import ranks as time_ranks
from gatedrnn.layers.context_parallel import context_parallel

BATCH, STEPS, FEATURES, HIDDEN = 3, 14, 3, 4
PIECES = {2: (9, 5), 4: (6, 1, 4, 3)}  # lengths, by how many ranks there are
LAYERS = {name: CELLS[name] for name in INPUT_GATED_CELLS} | {"qrnn-window": partial(QRNN, window=2)}
CASES = ("plain", "masked", "reset", "hx", "all")
DTYPES = (torch.float64, torch.float32)


def layer_of(name, dtype):
    torch.manual_seed(0)
    layer = LAYERS[name](FEATURES, HIDDEN, num_layers=2, bidirectional=True, batch_first=True, dtype=dtype)
    with torch.no_grad():  # states that begin at something
        for own, weight in layer.named_parameters():
            if "initial" in own or "bias" in own:
                weight.add_(0.3 * torch.randn_like(weight))
    return layer


def given_to(layer, case, dtype):
    """Inputs of a whole sequence; rows that are masked over a whole piece, cuts at pieces' edges, within them and in
    what is masked."""
    torch.manual_seed(1)
    x = torch.randn(BATCH, STEPS, FEATURES, dtype=dtype)
    mask, resets = torch.rand(BATCH, STEPS) < 0.8, torch.rand(BATCH, STEPS) < 0.15
    mask[1, 5:12], mask[0, 9:], resets[0, 9], resets[0, 11], resets[2, 6] = False, False, True, True, True
    hx = states_of(layer, BATCH, dtype) if case in ("hx", "all") else ()
    flags = {"mask": mask} if case in ("masked", "all") else {}
    flags |= {"resets": resets} if case in ("reset", "all") else {}
    return x, hx, flags


def gone_through(layer, x, hx, flags, piece, ends):
    """Output, h_n, and the gradients of x, hx and the weights; of one piece, the last of which reads h_n too."""
    torch.manual_seed(2)
    outputs = torch.randn(BATCH, STEPS, 2 * HIDDEN, dtype=x.dtype)[:, piece]
    states = torch.randn(4, BATCH, 1, dtype=x.dtype)
    x = x[:, piece].clone().requires_grad_()
    hx = tuple(s.clone().requires_grad_() for s in hx)
    output, last = layer(x, packed_up(hx) if hx else None, **{name: own[:, piece] for name, own in flags.items()})
    loss = (output * outputs).sum()
    if ends:
        loss = loss + sum((one * states).sum() for one in as_tuple(last))
    wanted = {"x": x, **{f"hx {i}": one for i, one in enumerate(hx)}, **dict(layer.named_parameters())}
    found = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True, materialize_grads=True)
    return output.detach(), tuple(one.detach() for one in as_tuple(last)), dict(zip(wanted, found, strict=True))


def piece_of(rank, size):
    begin = sum(PIECES[size][:rank])
    return slice(begin, begin + PIECES[size][rank])


def piece_by_piece(name, case, dtype, mesh, rank, size):
    layer = layer_of(name, dtype)
    whole = given_to(layer, case, dtype)
    return gone_through(context_parallel(layer, mesh), *whole, piece_of(rank, size), rank == size - 1)


def assert_whole(pieces, name, case, dtype):
    layer = layer_of(name, dtype)
    output, state, gradients = gone_through(layer, *given_to(layer, case, dtype), slice(None), True)
    for piece in pieces:
        assert_same_run((torch.cat([one[0] for one in pieces], dim=1), piece[1]), (output, state), dtype)
    found = torch.cat([piece[2]["x"] for piece in pieces], dim=1)
    assert_equal_within(found, gradients.pop("x"), dtype, "x", gradient=True)
    for which, want in gradients.items():
        assert_equal_within(sum(piece[2][which] for piece in pieces), want, dtype, which, gradient=True)


def as_dtensors(mesh):
    """A layer over DTensors of a length that does not divide gives what it gives over the whole."""
    layer = layer_of("mingru", torch.float32)
    torch.manual_seed(3)
    x = torch.randn(BATCH, STEPS - 1, FEATURES)
    expected = layer(x)
    cut = context_parallel(deepcopy(layer), mesh)
    output, state = cut(distribute_tensor(x, mesh, [Shard(1)]))
    assert isinstance(output, DTensor) and output.placements == (Shard(1),) and state.placements == (Replicate(),)
    assert_same_run((output.full_tensor(), state.to_local()), expected, torch.float32)
    refused(ValueError, "must be sharded on time", cut, distribute_tensor(x, mesh, [Replicate()]))


class Ranks:
    """Threads in the place of `torch.distributed`: all call `all_gather` equally often, and take turns."""

    def __init__(self, size):
        self.size, self.own = size, local()
        self.turns = [Semaphore(0) for _ in range(size)]
        self.sent = defaultdict(dict)  # by exchange, then by rank
        self.get_rank, self.get_world_size = lambda group=None: self.own.rank, lambda group=None: size

    def all_gather(self, into, x, group=None):
        assert all(each.is_contiguous() and each.shape == x.shape for each in (x, *into)), "as a backend wants them"
        exchange, rank = len(self.own.counts), self.own.rank
        self.own.counts.append(x.numel())
        self.sent[exchange][rank] = x.clone()
        self.turns[(rank + 1) % self.size].release()
        assert self.turns[rank].acquire(timeout=60), "another rank came to fewer exchanges"
        for number, each in enumerate(into):
            each.copy_(self.sent[exchange][number])

    def run(self, function):
        """The results of `function(rank)` in each rank, with how many numbers it sent in each exchange."""

        def thread(rank):
            self.own.rank, self.own.counts = rank, []
            self.turns[rank].acquire()
            try:
                return function(rank), self.own.counts
            finally:
                self.turns[(rank + 1) % self.size].release()

        with ThreadPoolExecutor(self.size) as pool:
            found = [pool.submit(thread, rank) for rank in range(self.size)]
            self.turns[0].release()
        return [one.result() for one in found]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


@pytest.fixture
def in_ranks(alone, monkeypatch):
    """Call a function as each of so many ranks."""

    def run(size, function, *given):
        ranks = Ranks(size)
        monkeypatch.setattr(time_ranks, "dist", ranks)
        return ranks.run(partial(function, *given))

    return run


NAME = axis({name: layer(2, 2).cell for name, layer in LAYERS.items()}, LAYERS)


@over(name=NAME, case=CASES, dtype=DTYPES, size=(2, 4))
def test_pieces_give_what_the_whole_gives(name, case, dtype, size, in_ranks, alone):
    found = in_ranks(size, partial(piece_by_piece, name, case, dtype, alone, size=size))
    assert_whole([piece for piece, _ in found], name, case, dtype)


def in_pieces(rank, size, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    mesh = init_device_mesh("cpu", (size,))
    found = {name: piece_by_piece(name, "all", torch.float32, mesh, rank, size) for name in LAYERS}
    as_dtensors(mesh)
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.parametrize("size", PIECES)
def test_processes_do_so_too(size, tmp_path):
    spawn(in_pieces, (size, str(tmp_path)), nprocs=size)
    pieces = [torch.load(tmp_path / f"{rank}.pt") for rank in range(size)]
    for name in LAYERS:
        assert_whole([own[name] for own in pieces], name, "all", torch.float32)


def test_a_rank_sends_the_product_of_its_decays_and_its_last_state(in_ranks, alone):
    def one_call(rank):
        output, _ = context_parallel(MinGRU(FEATURES, HIDDEN), alone)(torch.randn(5, BATCH, FEATURES))
        output.sum().backward()

    for _, sent in in_ranks(2, one_call):
        assert sent == [2 * BATCH * HIDDEN, 2 * BATCH * HIDDEN]


def test_frozen_weights_time_first_and_strided_inputs(in_ranks, alone):
    layer = MinLSTM(FEATURES, HIDDEN, num_layers=2, bidirectional=True).requires_grad_(False)
    whole = torch.randn(BATCH, 2 * FEATURES, STEPS)[:, ::2].permute(2, 0, 1).requires_grad_()
    mask = (torch.rand(BATCH, STEPS) < 0.8).T
    weights = torch.randn(STEPS, BATCH, 2 * HIDDEN)

    def through(layer, piece):
        x = whole.detach()[piece].requires_grad_()
        output, _ = layer(x, mask=mask[piece])
        return output.detach(), *torch.autograd.grad((output * weights[piece]).sum(), x)

    found = in_ranks(2, lambda rank: through(context_parallel(deepcopy(layer), alone), piece_of(rank, 2)))
    pieces = map(torch.cat, zip(*(piece for piece, _ in found), strict=True))
    for what, got, want in zip(("output", "gradient of x"), pieces, through(layer, slice(None)), strict=True):
        assert_equal_within(got, want, torch.float32, what, gradient=what != "output")


def test_tensors_that_are_sharded_on_time_come_out_so_and_what_cannot_be_cut_is_refused_by_name(alone):
    as_dtensors(alone)
    refused(ValueError, "its gates read the state", context_parallel, LSTM(3, 4), alone)
    refused(ValueError, "logarithms", context_parallel, MinLSTM(3, 4, log_space=True), alone)
    refused(ValueError, "has no recurrent layer", context_parallel, torch.nn.Linear(3, 4), alone)
    layer = context_parallel(MinGRU(3, 4, zoneout=0.1), alone)
    assert "cut over 1 processes" in layer.eval().runs_on().reason
    x = torch.randn(5, 2, 3)
    refused(TypeError, "its mask", layer, pack_padded_sequence(x, torch.tensor([5, 2])))
    refused(ValueError, "gaps", layer, x, gaps=torch.ones(5, 2))
    refused(ValueError, "other masks", layer.train(), x)
