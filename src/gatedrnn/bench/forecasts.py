"""The section on forecasts: one value of a stream, and the forecasts of many series in one call."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import linear

from gatedrnn.bench.contenders import Contender, Expected, Setting, Weights
from gatedrnn.bench.layers import products_of
from gatedrnn.bench.measure import Bench, Mode, threads
from gatedrnn.bench.models import in_float64
from gatedrnn.bench.sizes import Sizes
from gatedrnn.models import GatedRNNCache, GatedRNNForecastConfig, GatedRNNForForecasting

VALUE = Mode("one value, one thread", lambda contender: contender.forward, backward=False)
SERIES = Mode("forecasts of all series", lambda contender: contender.forward, backward=False)
SEASON, HORIZON = 24, 48


def forecast(bench: Bench, sizes: Sizes, cells: Sequence[str], seconds: float) -> None:
    """`update` by a value over the products that it cannot do without; `predict` of many series."""
    pairs = [(cell, products_of(cell)) for cell in cells]
    with threads(1):
        streams = [contender for cell in cells for contender in _stream(cell, sizes, bench.device)]
        bench.compare("forecast", streams, pairs, (VALUE,), seconds / 2)
    bench.compare("forecast", [_predict(cell, sizes, bench.device) for cell in cells], (), (SERIES,), seconds / 2)


def _model(cell: str, width: int, device: str) -> GatedRNNForForecasting:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = GatedRNNForecastConfig(
            cell=cell, embedding_size=width // 2, hidden_size=width, num_hidden_layers=1,
            horizon=HORIZON, seasons=[SEASON],
        )  # fmt: skip
        return GatedRNNForForecasting(config).to(device).eval()


def _stream(cell: str, sizes: Sizes, device: str) -> Iterator[Contender]:
    _, context, width = sizes.series
    setting, model = Setting((1, 1, width), device), _model(cell, width, device)
    past, value = setting.normal(1, context), setting.normal(1, 1)
    begun = model.start(past)
    before, first = begun.past, {name: tensor.clone() for name, tensor in begun.cache.tensors().items()}
    leaves: dict[str, Tensor] = dict(model.model.named_parameters())
    exact = in_float64(model.model)
    smoothed, _ = model.smooth(begun.scale.units(value), before, 1)
    features = model.joined(smoothed, begun.scale).double()

    def update() -> Tensor:
        # The same state each time: a stream is brought up to date in place.
        begun.past, begun.cache = before, GatedRNNCache.of_tensors(model.config, first)
        return model.update(begun, value).hidden[0]

    def hidden(of: Weights) -> list[Tensor]:
        tensors = {name: t.double() if t.is_floating_point() else t for name, t in first.items()}
        state = GatedRNNCache.of_tensors(model.config, tensors)
        arguments = {"input_values": features, "past_key_values": state}
        return [functional_call(exact, dict(of), kwargs=arguments).last_hidden_state[:, -1]]

    yield Contender(cell, setting, update, leaves, Expected(hidden, leaves, None))
    matrices = [weight for name, weight in leaves.items() if weight.dim() == 2 and name.startswith(("emb", "parts"))]
    named = {str(number): matrix for number, matrix in enumerate(matrices)}
    named |= {f"vector {number}": setting.normal(1, matrix.shape[1]) for number, matrix in enumerate(matrices)}

    def multiplied(w: Weights) -> list[Tensor]:
        return [linear(w[f"vector {number}"], w[str(number)]) for number in range(len(matrices))]

    yield Contender(
        products_of(cell), setting, lambda: tuple(multiplied(named)), named, Expected(multiplied, named, None)
    )  # fmt: skip


def _predict(cell: str, sizes: Sizes, device: str) -> Contender:
    series, context, width = sizes.series
    setting, model = Setting(sizes.series, device), _model(cell, width, device)
    past = setting.normal(series, context)
    leaves: dict[str, Tensor] = dict(model.named_parameters())
    exact = in_float64(model)

    def quantiles(of: Weights) -> list[Tensor]:
        return [functional_call(exact, dict(of), args=(past,)).quantiles]

    return Contender(
        cell, setting, lambda: model.predict(past), leaves, Expected(quantiles, leaves, None), work=(series, "series/s")
    )  # fmt: skip
