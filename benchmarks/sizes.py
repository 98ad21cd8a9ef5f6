"""The sizes of measurements by device. Nothing is imported from the package, of which workers load older versions."""

from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypeAlias

Shape: TypeAlias = tuple[int, int, int]
"""(batch, time, width); input and state have the same width."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of the measurements. Shapes are (batch, time, width)."""

    layers: tuple[Shape, ...] = ((8, 1024, 256), (2, 4096, 256), (64, 64, 128), (32, 512, 64))
    autocast: tuple[Shape, ...] = ((8, 1024, 256),)
    scan: tuple[Shape, ...] = ((8, 1024, 256), (1, 65536, 256))
    memory: tuple[Shape, ...] = ((8, 1024, 256),)
    loops: tuple[Shape, ...] = ((8, 512, 256), (32, 128, 256))
    step_widths: tuple[int, ...] = (256, 1024)
    lengths: tuple[int, ...] = (64, 256, 1024, 4096, 16384, 65536)
    """Lengths of one sequence in steps."""
    loop_lengths: int = 4096
    """The longest sequence of loop cells."""
    length_width: int = 256
    words: int = 33_278
    """The vocabulary of WikiText-2."""
    training_scale: int = 1
    """The divisor of the sizes of the standard models."""
    copied: int = 1 << 24
    """Elements of the arrays whose sum measures the bandwidth of memory."""
    model: Shape = (32, 128, 128)
    model_layers: int = 2
    vocabulary: int = 10_000
    softmax: Shape = (20, 35, 256)
    stream: tuple[int, int, int] = (4, 512, 256)
    """Layers, width and vocabulary of the model whose tokens are timed."""
    series: Shape = (414, 168, 128)
    """Series, values of each and width of the model that forecasts them."""
    family: tuple[Shape, ...] = ((8, 1024, 256),)
    drop_in: tuple[Shape, ...] = tuple(
        (batch, time, width)
        for width in (32, 64, 128, 256, 512, 1024)
        for batch, time in ((1, 128), (8, 64), (32, 32), (64, 32))
    )
    drop_in_widths: tuple[int, ...] = (32, 64, 128, 256, 512, 1024)
    few_steps: tuple[Shape, ...] = tuple((rows, steps, 128) for steps in (1, 4, 8, 16, 32) for rows in (1, 64, 256))

    def at(self, shapes: tuple[Shape, ...]) -> Self:
        """Replace all shapes."""
        other: dict[str, Any] = {field.name: shapes for field in fields(self) if field.type == tuple[Shape, ...]}
        return replace(self, **other)


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
"""Sizes by device."""
