"""The sections of `python -m benchmarks` at sizes that take no time."""

from dataclasses import replace

import small_bench

from benchmarks.sizes import Sizes
from benchmarks.suite import suite

SIZES = Sizes(
    **vars(small_bench.SIZES), model=(2, 5, 4), vocabulary=11, softmax=(2, 5, 4), stream=(2, 4, 7), series=(3, 30, 4),
    family=(small_bench.SHAPE,), drop_in=(small_bench.SHAPE,), drop_in_widths=(4,),
    few_steps=((2, 1, 4),),
)  # fmt: skip
SMALL_SUITE = replace(suite(), sizes={"cpu": SIZES})
