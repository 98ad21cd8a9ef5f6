"""Which cells operations know: a class that is derived from one may compute something else, and has no kernel."""

import pytest
import torch
from layer_laws import series
from tolerances import assert_equal_within

from gatedrnn import RecurrentLayer
from gatedrnn.cells.mgu import MGUEquations
from gatedrnn.cells.mingru import MinGRUEquations


class Inverted(MinGRUEquations):
    """Other coefficients of a scan."""

    name = "inverted"

    def coefficients(self, *projected):
        decay, drive = super().coefficients(*projected)
        return 1 - decay, drive


class Doubled(MGUEquations):
    """Another output of a loop."""

    name = "doubled"

    def output(self, state, projected):
        return 2 * state[0]


@pytest.mark.parametrize("equations", [Inverted, Doubled])
def test_a_derived_cell_does_not_run_on_the_kernel_of_the_cell_it_derives_from(equations):
    layer = type("Derived", (RecurrentLayer,), {"cell_class": equations})(3, 4, batch_first=True, dtype=torch.float64)
    assert "no kernel" in layer.runs_on().reason
    x, state, outputs = series(), None, []
    whole, last = layer(x)
    for x_t in x.unbind(1):
        output, state = layer.step(x_t, state)
        outputs.append(output)
    assert_equal_within(torch.stack(outputs, 1), whole, torch.float64, "output")
    assert_equal_within(whole[:, -1], (1 + (equations is Doubled)) * last[0], torch.float64, "last output")
