"""What is measured at which size: the default run's, by device."""

from dataclasses import dataclass, replace
from typing import TypeAlias

Shape: TypeAlias = tuple[int, int, int]
"""(batch, time, width); input and state have the same width."""


@dataclass(frozen=True)
class Sizes:
    """Shapes are (batch, time, width)."""

    layers: tuple[Shape, ...] = ((8, 1024, 256), (2, 4096, 256), (64, 64, 128), (32, 512, 64))
    autocast: tuple[Shape, ...] = ((8, 1024, 256),)
    scan: tuple[Shape, ...] = ((8, 1024, 256), (1, 65536, 256))
    memory: tuple[Shape, ...] = ((8, 1024, 256),)
    loops: tuple[Shape, ...] = ((8, 512, 256), (32, 128, 256))
    step_widths: tuple[int, ...] = (256, 1024)
    lengths: tuple[int, ...] = (64, 256, 1024, 4096, 16384, 65536)
    """Steps of one sequence."""
    loop_lengths: int = 4096
    """The longest sequence of loop cells."""
    length_width: int = 256
    model: Shape = (32, 128, 128)
    model_layers: int = 2
    vocabulary: int = 10_000
    softmax: Shape = (20, 35, 256)
    words: int = 33_278
    """The vocabulary of WikiText-2."""
    stream: tuple[int, int, int] = (4, 512, 256)
    """Layers, width and vocabulary of the model whose tokens are timed."""
    series: Shape = (414, 168, 128)
    """Series, values of each and width of the model that forecasts them."""
    family: tuple[Shape, ...] = ((8, 1024, 256),)
    training_scale: int = 1
    """By what the sizes of the standard models are divided."""
    copied: int = 1 << 24
    """Numbers of the arrays whose sum says how fast memory is."""
    drop_in: tuple[Shape, ...] = tuple(
        (batch, time, width)
        for width in (32, 64, 128, 256, 512, 1024)
        for batch, time in ((1, 128), (8, 64), (32, 32), (64, 32))
    )
    drop_in_widths: tuple[int, ...] = (32, 64, 128, 256, 512, 1024)

    def at(self, shapes: tuple[Shape, ...]) -> "Sizes":
        """The same with other shapes wherever there are any."""
        return replace(
            self,
            layers=shapes,
            autocast=shapes,
            scan=shapes,
            memory=shapes,
            loops=shapes,
            family=shapes,
            drop_in=shapes,
        )


LONG, SHORT = 65_536, 4_096
"""Lengths whose times say whether a scan is linear."""

SIZES = {
    "cpu": Sizes(),
    "cuda": Sizes(
        layers=((64, 512, 256), (64, 4096, 256)),
        autocast=((64, 4096, 256),),
        scan=((16, 4096, 1024),),
        memory=((64, 4096, 256),),
        loops=((64, 512, 256),),
    ),
}
