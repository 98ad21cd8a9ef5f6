"""Tensors that are kept between calls: one for all, and none of what follows tensors."""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import vmap

from gatedrnn.models.constants import constant


def test_a_constant_is_made_once_and_can_be_read_by_any_later_call():
    calls = []

    def squares(device, count):
        calls.append(count)
        return torch.arange(count, dtype=torch.float32, device=device) ** 2

    x = torch.ones(3)
    with FakeTensorMode() as mode:
        assert mode.from_tensor(x).add(constant(squares, mode.from_tensor(x), 3)).shape == (3,)
    assert vmap(lambda row: row * constant(squares, row, 3))(x.expand(2, 3)).tolist() == [[0, 1, 4]] * 2
    with torch.inference_mode():
        first = constant(squares, x, 3)
    weights = x.clone().requires_grad_()
    (weights * constant(squares, x, 3)).sum().backward()
    assert weights.grad.tolist() == [0, 1, 4]
    assert constant(squares, x, 3) is first and calls == [3, 3, 3], "followed twice, and then kept"
    assert constant(squares, x, 2).tolist() == [0, 1] and calls == [3, 3, 3, 2]
