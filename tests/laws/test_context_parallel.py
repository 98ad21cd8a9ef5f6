"""A sequence that is cut along time over processes gives what one process gives: outputs, states and gradients."""

from functools import partial

import pytest
import torch
import torch.distributed as dist
from layer_laws import CELLS, INPUT_GATED_CELLS
from tolerances import assert_equal_within
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.multiprocessing import spawn
from torch.nn.utils.rnn import pack_padded_sequence

from gatedrnn import LSTM, QRNN, MinGRU, MinLSTM, linear_scan
from gatedrnn.layers.context_parallel import context_parallel
from gatedrnn.ops.block_scan import block_scan
from gatedrnn.ops.over_ranks import TimeRanks

BATCH, STEPS, FEATURES, HIDDEN = 3, 14, 3, 4
PIECES = {2: (9, 5), 4: (6, 1, 4, 3)}
"""Lengths, by how many processes there are."""
LAYERS = {name: CELLS[name] for name in INPUT_GATED_CELLS} | {"qrnn-window": partial(QRNN, window=2)}
CASES = ("plain", "masked", "reset", "hx", "all")


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
    state = layer.initial_state(BATCH)
    hx = mapped(lambda s: torch.randn(s.shape, dtype=s.dtype), state)
    flags = {"mask": mask} if case in ("masked", "all") else {}
    flags |= {"resets": resets} if case in ("reset", "all") else {}
    return x, hx if case in ("hx", "all") else None, flags


def mapped(function, hx):
    return tuple(map(function, hx)) if isinstance(hx, tuple) else None if hx is None else function(hx)


def leaves(hx):
    return list(hx) if isinstance(hx, tuple) else [] if hx is None else [hx]


def gone_through(layer, x, hx, flags, piece, ends):
    """Output, h_n, and the gradients of x, hx and the weights; of one piece, the last of which reads h_n too."""
    torch.manual_seed(2)
    outputs = torch.randn(BATCH, STEPS, 2 * HIDDEN, dtype=x.dtype)[:, piece]
    states = torch.randn(4, BATCH, 1, dtype=x.dtype)
    x = x[:, piece].clone().requires_grad_()
    hx = mapped(lambda s: s.clone().requires_grad_(), hx)
    output, state = layer(x, hx, **{name: own[:, piece] for name, own in flags.items()})
    loss = (output * outputs).sum()
    if ends:
        loss = loss + sum((one * states).sum() for one in leaves(state))
    wanted = {"x": x, **{f"hx {i}": one for i, one in enumerate(leaves(hx))}, **dict(layer.named_parameters())}
    found = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True, materialize_grads=True)
    return output.detach(), [one.detach() for one in leaves(state)], dict(zip(wanted, found, strict=True))


def piece_of(rank, size):
    begin = sum(PIECES[size][:rank])
    return slice(begin, begin + PIECES[size][rank])


def in_pieces(rank, size, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    mesh, found = init_device_mesh("cpu", (size,)), {}
    for name in LAYERS:
        for dtype in (torch.float64, torch.float32):
            layer = layer_of(name, dtype)
            inputs = {case: given_to(layer, case, dtype) for case in CASES}
            context_parallel(layer, mesh)
            for case, whole in inputs.items():
                found[name, dtype, case] = gone_through(layer, *whole, piece_of(rank, size), rank == size - 1)
    found["sent"], found["tensors"] = sent_by(mesh), as_dtensors(mesh)
    found["scans"] = scans(TimeRanks(), piece_of(rank, size))
    found["frozen"] = frozen_and_time_first(mesh, piece_of(rank, size))
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def sent_by(mesh):
    """Numbers that a layer in one direction sends forward, and backward."""
    counts, gather = [0], dist.all_gather

    def counted(into, x, group=None):
        counts[-1] += x.numel()
        return gather(into, x, group)

    dist.all_gather = counted
    layer = context_parallel(MinGRU(FEATURES, HIDDEN), mesh)
    output, _ = layer(torch.randn(5, BATCH, FEATURES))
    counts.append(0)
    output.sum().backward()
    dist.all_gather = gather
    return counts


def as_dtensors(mesh):
    """A layer over DTensors of a length that does not divide: what comes out, whole again."""
    layer, found = layer_of("mingru", torch.float32), {}
    torch.manual_seed(3)
    x = torch.randn(BATCH, STEPS - 1, FEATURES)
    expected = layer(x)
    output, state = context_parallel(layer, mesh)(distribute_tensor(x, mesh, [Shard(1)]))
    assert isinstance(output, DTensor) and output.placements == (Shard(1),) and state.placements == (Replicate(),)
    found["output"] = output.full_tensor(), expected[0]
    found["state"] = state.to_local(), expected[1]
    try:
        layer(distribute_tensor(x, mesh, [Replicate()]))
    except ValueError as error:
        found["refused"] = str(error)
    return found


def frozen_and_time_first(mesh, piece):
    """Output and gradient of x, of this piece and of the whole; time first, strided inputs, frozen weights."""
    torch.manual_seed(5)
    layer = MinLSTM(FEATURES, HIDDEN, num_layers=2, bidirectional=True).requires_grad_(False)
    whole = torch.randn(BATCH, 2 * FEATURES, STEPS)[:, ::2].permute(2, 0, 1).requires_grad_()
    mask = (torch.rand(BATCH, STEPS) < 0.8).T
    weights = torch.randn(STEPS, BATCH, 2 * HIDDEN)
    want, _ = layer(whole, mask=mask)
    (gradient,) = torch.autograd.grad((want * weights).sum(), whole)
    x = whole.detach()[piece].requires_grad_()
    got, _ = context_parallel(layer, mesh)(x, mask=mask[piece])
    (got * weights[piece]).sum().backward()
    return (got.detach(), want.detach()[piece]), (x.grad, gradient[piece])


def scans(ranks, piece):
    """The operations by themselves, of this piece and of the whole."""
    torch.manual_seed(4)
    decay, drive, h0 = torch.randn(2, STEPS, 6).double(), torch.randn(2, STEPS, 6).double(), torch.randn(2, 6).double()
    blocks, resets = torch.randn(2, STEPS, 3, 3, 2).double(), torch.rand(2, STEPS) < 0.2
    to = torch.randn(6).double()
    found = {}
    for reverse in (False, True):
        for name, scan, own, first in (
            ("linear", ranks.linear_scan, linear_scan, decay), ("block", ranks.block_scan, block_scan, blocks),
        ):  # fmt: skip
            flags = {"reset_state": to, "reverse": reverse}
            got = scan(first[:, piece], drive[:, piece], h0, resets=resets[:, piece], **flags)
            want = own(first, drive, h0, resets=resets, **flags)
            found[name, reverse] = got[0], want[0][:, piece], got[1], want[1]
    return found


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.slow)])
def cut(request, tmp_path_factory):
    """What each process found."""
    folder = tmp_path_factory.mktemp("pieces")
    spawn(in_pieces, (request.param, str(folder)), nprocs=request.param)
    return [torch.load(folder / f"{rank}.pt") for rank in range(request.param)]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", LAYERS)
def test_pieces_give_what_the_whole_gives(cut, name, case):
    for dtype in (torch.float64, torch.float32):
        layer = layer_of(name, dtype)
        output, state, gradients = gone_through(layer, *given_to(layer, case, dtype), slice(None), True)
        pieces = [own[name, dtype, case] for own in cut]
        assert_equal_within(torch.cat([piece[0] for piece in pieces], dim=1), output, dtype, "output")
        for piece in pieces:
            for got, want in zip(piece[1], state, strict=True):
                assert_equal_within(got, want, dtype, "h_n")
        assert_equal_within(
            torch.cat([piece[2]["x"] for piece in pieces], dim=1), gradients.pop("x"), dtype, "x", gradient=True
        )
        for which, want in gradients.items():
            assert_equal_within(sum(piece[2][which] for piece in pieces), want, dtype, which, gradient=True)


def test_a_process_sends_the_product_of_its_decays_and_its_last_state(cut):
    assert all(own["sent"] == [2 * BATCH * HIDDEN, 2 * BATCH * HIDDEN] for own in cut)


def test_tensors_that_are_sharded_on_time_come_out_so(cut):
    for own in cut:
        for what in ("output", "state"):
            assert_equal_within(*own["tensors"][what], torch.float32, what)
        assert "must be sharded on time" in own["tensors"]["refused"]


def test_frozen_weights_time_first_and_strided_inputs(cut):
    for own in cut:
        output, gradient = own["frozen"]
        assert_equal_within(*output, torch.float32, "output")
        assert_equal_within(*gradient, torch.float32, "x", gradient=True)


def test_scans_by_themselves(cut):
    for own in cut:
        for got, want, last, end in own["scans"].values():
            assert_equal_within(got, want, torch.float64, "states")
            assert_equal_within(last, end, torch.float64, "last")


@pytest.fixture
def alone(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


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
