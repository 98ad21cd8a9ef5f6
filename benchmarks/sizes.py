"""The sizes of measurements: the package's, and those of the sections here."""

from dataclasses import dataclass

from gatedrnn.benchmarking import record
from gatedrnn.benchmarking.record import Shape


@dataclass(frozen=True)
class Sizes(record.Sizes):
    """Shapes are (batch, time, width)."""

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


SIZES = {device: Sizes(**vars(sizes)) for device, sizes in record.SIZES.items()}
"""Sizes by device."""
