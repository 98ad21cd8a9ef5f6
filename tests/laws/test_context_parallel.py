"""A sequence that is cut along time over processes gives what one process gives: outputs, states and gradients.

In the fast tests ranks are threads of one process, which take turns; `test_processes_do_so_too` starts real ones.
"""

from copy import deepcopy
from functools import partial

import pytest
import torch
import torch.distributed as dist
from covering import over
from layer_laws import CELLS, INPUT_GATED_CELLS, as_tuple, packed_up, states_of
from paths import axis
from time_ranks import Ranks
from tolerances import assert_equal_within
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.multiprocessing import spawn
from torch.nn.utils.rnn import pack_padded_sequence

from gatedrnn import LSTM, QRNN, MinGRU, MinLSTM, linear_scan
from gatedrnn.layers.context_parallel import context_parallel
from gatedrnn.ops import over_ranks
from gatedrnn.ops.block_scan import block_scan
from gatedrnn.ops.over_ranks import TimeRanks

BATCH, STEPS, FEATURES, HIDDEN = 3, 14, 3, 4
PIECES = {2: (9, 5), 4: (6, 1, 4, 3)}
"""Lengths, by how many ranks there are."""
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
    return output.detach(), [one.detach() for one in as_tuple(last)], dict(zip(wanted, found, strict=True))


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
    assert_equal_within(torch.cat([piece[0] for piece in pieces], dim=1), output, dtype, "output")
    for piece in pieces:
        for got, want in zip(piece[1], state, strict=True):
            assert_equal_within(got, want, dtype, "h_n")
    found = torch.cat([piece[2]["x"] for piece in pieces], dim=1)
    assert_equal_within(found, gradients.pop("x"), dtype, "x", gradient=True)
    for which, want in gradients.items():
        assert_equal_within(sum(piece[2][which] for piece in pieces), want, dtype, which, gradient=True)


def as_dtensors(mesh):
    """A layer over DTensors of a length that does not divide gives what it gives over the whole."""
    layer = layer_of("mingru", torch.float32)
    torch.manual_seed(3)
    x = torch.randn(BATCH, STEPS - 1, FEATURES)
    expected, last = layer(x)
    cut = context_parallel(deepcopy(layer), mesh)
    output, state = cut(distribute_tensor(x, mesh, [Shard(1)]))
    assert isinstance(output, DTensor) and output.placements == (Shard(1),) and state.placements == (Replicate(),)
    assert_equal_within(output.full_tensor(), expected, torch.float32, "output")
    assert_equal_within(state.to_local(), last, torch.float32, "state")
    with pytest.raises(ValueError, match="must be sharded on time"):
        cut(distribute_tensor(x, mesh, [Replicate()]))


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
        monkeypatch.setattr(over_ranks, "dist", ranks)
        return ranks.run(partial(function, *given))

    return run


@over(
    name=axis({name: layer(2, 2).cell for name, layer in LAYERS.items()}, LAYERS), case=CASES, dtype=DTYPES, size=(2, 4)
)
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


def test_tensors_that_are_sharded_on_time_come_out_so(alone):
    as_dtensors(alone)


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
    output, gradient = map(torch.cat, zip(*(piece for piece, _ in found), strict=True))
    expected, slope = through(layer, slice(None))
    assert_equal_within(output, expected, torch.float32, "output")
    assert_equal_within(gradient, slope, torch.float32, "x", gradient=True)


@pytest.mark.parametrize("reverse", [False, True])
def test_scans_by_themselves(reverse, in_ranks):
    decay, drive, h0 = torch.randn(2, STEPS, 6).double(), torch.randn(2, STEPS, 6).double(), torch.randn(2, 6).double()
    blocks, resets, to = torch.randn(2, STEPS, 3, 3, 2).double(), torch.rand(2, STEPS) < 0.2, torch.randn(6).double()
    for kind, own, first in (("linear_scan", linear_scan, decay), ("block_scan", block_scan, blocks)):

        def of_piece(rank, kind=kind, first=first):
            piece, flags = piece_of(rank, 2), {"reset_state": to, "reverse": reverse}
            return getattr(TimeRanks(), kind)(first[:, piece], drive[:, piece], h0, resets=resets[:, piece], **flags)

        states, end = own(first, drive, h0, resets=resets, reset_state=to, reverse=reverse)
        found = [piece for piece, _ in in_ranks(2, of_piece)]
        assert_equal_within(torch.cat([got for got, _ in found], dim=1), states, torch.float64, "states")
        for _, last in found:
            assert_equal_within(last, end, torch.float64, "last")


def test_what_cannot_be_cut_is_refused_by_name(alone):
    for module, said in (
        (LSTM(3, 4), "its gates read the state"),
        (MinLSTM(3, 4, log_space=True), "logarithms"),
        (torch.nn.Linear(3, 4), "has no recurrent layer"),
    ):
        with pytest.raises(ValueError, match=said):
            context_parallel(module, alone)
    layer = context_parallel(MinGRU(3, 4, zoneout=0.1), alone)
    assert "cut over 1 processes" in layer.eval().runs_on().reason
    packed = pack_padded_sequence(torch.randn(5, 2, 3), torch.tensor([5, 2]))
    with pytest.raises(TypeError, match="its mask"):
        layer(packed)
    with pytest.raises(ValueError, match="gaps"):
        layer(torch.randn(5, 2, 3), gaps=torch.ones(5, 2))
    with pytest.raises(ValueError, match="other masks"):
        layer.train()(torch.randn(5, 2, 3))
