"""Kernels read tensors where they lie, and leave their storages as they were."""

import torch
from layer_laws import every_cell, layer_of
from tolerances import assert_equal_within

from gatedrnn import MinGRU
from gatedrnn.kernels.cpu.views import flat, strided


@every_cell
def test_tensors_that_a_layer_has_read_can_still_be_resized(name):
    layer, x = layer_of(name, 4, 8, dtype=torch.float32), torch.randn(5, 2, 4, requires_grad=True)
    output, _ = layer(x)
    output.sum().backward()
    with torch.no_grad():
        layer.step(x[0], layer.step(x[0])[1])
    assert all(v.untyped_storage().resizable() for v in (x, output, *layer.parameters()))


def test_an_array_keeps_its_tensor_alive_and_a_series_is_found_where_it_lies():
    found = flat(torch.full((1 << 16,), 3.0))
    others = [torch.full((1 << 16,), float(i)) for i in range(8)]
    assert (found == 3).all() and len(others) == 8
    for shape, strides in (((2, 3, 4), (40, 10, 1)), ((2, 3, 4), (0, 0, 0)), ((0, 3, 4), (12, 4, 1))):
        x = torch.randn(100)[5:].as_strided(shape, strides, 5)
        elements, batch, time = strided(x)
        for b, t in ((b, t) for b in range(shape[0]) for t in range(shape[1])):
            start = b * batch + t * time
            assert_equal_within(elements[start : start + 4], x[b, t], torch.float64, f"row at strides {strides}")


def test_a_lazy_sign_is_read():
    lazy = torch.randn(1, 1, dtype=torch.complex64).conj().imag
    assert lazy.is_neg() and lazy.is_contiguous()
    layer = MinGRU(1, 3)
    with torch.no_grad():
        assert_equal_within(layer.step(lazy)[0], layer.step(lazy.clone().resolve_neg())[0], torch.float32, "output")
