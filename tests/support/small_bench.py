"""A bench of sizes that take no time, and contenders made by hand."""

from typing import Any

import torch

from gatedrnn.bench.contenders import Contender, Expected, Setting
from gatedrnn.bench.sizes import Sizes

SHAPE = (2, 6, 4)
SIZES = Sizes(
    layers=(SHAPE,), autocast=(SHAPE,), scan=(SHAPE, (1, 40, 4)), memory=(SHAPE,), loops=(SHAPE,), step_widths=(4,),
    lengths=(4, 8), loop_lengths=4, length_width=4, model=(2, 5, 4), model_layers=2, vocabulary=11,
    softmax=(2, 5, 4), words=13, stream=(2, 4, 7), series=(3, 30, 4), family=((2, 6, 4),),
    training_scale=16, copied=1000, drop_in=(SHAPE,), drop_in_widths=(4,),
)  # fmt: skip


def double(name: str = "double", factor: float = 2.0, slope: float = 2.0, **fields: Any) -> Contender:
    """y = factor · x, whose gradient is said to be `slope`; right if both are 2."""
    x = Setting(SHAPE).input()
    leaves = {"x": x}
    expected = Expected(lambda w: [2 * w["x"]], leaves, torch.ones(SHAPE))

    def run() -> torch.Tensor:
        # The value of one product, the gradient of another.
        return (factor - slope) * x.detach() + slope * x

    return Contender(name, Setting(SHAPE), fields.pop("run", run), leaves, expected, **fields)
