"""The path that a layer names is the function that runs it."""

import torch
from layer_laws import as_tuple, every_cell, layer_of, series

from gatedrnn.kinds.kind import Direction, Pass


@every_cell
@torch.no_grad()
def test_the_function_of_the_named_path_gives_the_output_and_the_state_of_the_layer(name):
    layer, x = layer_of(name).eval(), series()
    before = tuple(state[0] for state in layer._initial_state(x))
    read, start, last_input = layer._wrapper.beside_the_last(x, before)
    direction = Direction(read, start, layer._weights(0, ""))
    path = layer._kind.path(layer, Pass(direction=direction))
    assert path[:2] == layer.runs_on()[:2]
    (output, last), (whole, h_n) = path.run(layer, direction), layer(x)
    assert output.equal(whole)
    assert all(
        of_path.equal(of_layer[0]) for of_path, of_layer in zip((*last, *last_input), as_tuple(h_n), strict=True)
    )
