"""Classifiers that answer only when all is read: in both directions, by convolutions, beside a linear path, or by
several networks. One graph reads the whole sequence and gives what each layer reads at each step, and the answer; the
graph of a step then runs every layer and direction as a stream of its own.
"""

from copy import copy, deepcopy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gatedrnn.layers import RecurrentLayer
from gatedrnn.models import GatedRNNCache, GatedRNNConfig, GatedRNNForSequenceClassification
from gatedrnn.models.grams import CharacterEmbedding
from gatedrnn.models.modeling import GatedRNNClassifier, GatedRNNModel, build_layer
from gatedrnn.shapes import Series
from gatedrnn.view.answer import Place, ReadTogether, Said, StepAnswer
from gatedrnn.view.record import Answers

EXAMPLE = 7
"""Steps of the sequence that the graph is traced with."""
PARTS = ["network and linear path", "the network alone", "the linear path alone"]


class Stream(NamedTuple):
    """One layer of a model in one direction."""

    place: Place
    word: str
    """The cell of the layer, with options."""
    layer: RecurrentLayer
    """The layer of that direction alone."""


class Directions(nn.Module):
    """A replacement of stacked recurrent layers by streams, which records what each of them read.

    Args:
        streams: of each layer, one for each direction.
    """

    bidirectional = True
    """True, so that a model runs it over a sequence, whatever its length."""

    def __init__(self, streams: list[list[Stream]]) -> None:
        super().__init__()
        self.stacked = [[stream.layer for stream in directions] for directions in streams]
        self.layers = nn.ModuleList(layer for directions in self.stacked for layer in directions)
        self.read = list[Series]()
        """The inputs that each stream read in the last call, in the order of its reading: backwards, the last step is
        the first."""

    def forward(self, x: Series, hx: None = None, **nothing: object) -> tuple[Series, None]:
        """The output of the last layer, (batch, time, features), without a state."""
        self.read = []
        for layers in self.stacked:
            outputs = []
            for direction, layer in enumerate(layers):
                self.read.append(x.flip(1) if direction else x)
                output, _ = layer(self.read[-1])
                outputs.append(output.flip(1) if direction else output)
            x = torch.cat(outputs, dim=2)
        return x, None


class Whole(ReadTogether):
    """A module that returns what each stream reads at each of its steps, then the answer, the same at all steps unless
    each has a label.

    Args:
        model: left as it is.
    """

    def __init__(self, model: GatedRNNClassifier) -> None:
        config = model.config
        columns = 1 if config.input_size is None else config.input_size
        super().__init__(torch.zeros(EXAMPLE, columns, dtype=torch.float64))
        self.model: Any = deepcopy(model).eval()
        self.streams = list[Stream]()
        self.replaced = list[Directions]()
        for number, network in enumerate(self.model.networks, start=1):
            self._replace(network.model, f"network {number}, " if config.members > 1 else "")
        self.path: Any = getattr(self.model, "linear_path", None)
        self.model.linear_path = None  # which is asked by itself
        self.of_sequence = isinstance(model, GatedRNNForSequenceClassification)

    @torch.no_grad()
    def _replace(self, core: GatedRNNModel, prefix: str) -> None:
        """Layers by streams, and tokens that are composed of characters by their vectors, which a page can hold."""
        tokens = core.embeddings.map
        if isinstance(tokens, CharacterEmbedding):
            core.embeddings.map = nn.Embedding.from_pretrained(tokens(torch.arange(tokens.num_embeddings)))
        first = 0
        for part in core.parts:
            block: Any = part
            streams = [streams_of(core.config, block.layer, first, number, prefix) for number in range(block.layers)]
            first += block.layers
            block.layer = Directions(streams)
            self.streams += [stream for directions in streams for stream in directions]
            self.replaced.append(block.layer)

    def forward(self, values: Tensor) -> Tensor:
        """Run the layers over all that was typed; returns what each stream read, and the answer."""
        config = self.model.config
        if config.vocab_size is not None:
            named, read = "input_ids", values[:, 0].long()[None]
        else:
            named = "input_values"
            read = values[None] if config.channel_means is not None else values[None].float()
        answer = self.model(**{named: read}).logits
        if self.path is not None:
            linear = self.path(read, None)
            answer = torch.cat([self.model.with_path(answer, linear), answer, linear], dim=1)
        if self.of_sequence:
            answer = answer.unsqueeze(1).expand(-1, read.shape[1], -1)
        inputs = [x for layer in self.replaced for x in layer.read]
        return torch.cat([*inputs, answer.to(inputs[0].dtype)], dim=2)[0]


def streams_of(config: GatedRNNConfig, layer: RecurrentLayer, first: int, number: int, prefix: str) -> list[Stream]:
    """One layer of a stack, as a layer of its own for each direction.

    Args:
        config: of the model.
        layer: the stack.
        first: the number of its first layer in the model.
        number: of the layer in the stack.
        prefix: of the streams' names.
    """
    one_way, words = copy(config), config.cell.split(",")
    one_way.bidirectional = False
    features = layer.output_size if number else layer.input_size
    streams = []
    for reverse in (False, True)[: 1 + layer.bidirectional]:
        single = build_layer(one_way, config.cells[first + number], features)
        end = f"_l{number}{'_reverse' if reverse else ''}"
        weights = layer.state_dict().items()
        single.load_state_dict({f"{n.removesuffix(end)}_l0": value for n, value in weights if n.endswith(end)})
        direction = (", backwards" if reverse else ", forwards") if layer.bidirectional else ""
        name = f"{prefix}layer {first + number + 1}{direction}"
        streams.append(Stream(Place(name, reverse), words[(first + number) % len(words)].strip(), single.eval()))
    return streams


class Streams(nn.Module):
    """The layers of streams, and a configuration that has as many."""

    def __init__(self, config: GatedRNNConfig, streams: list[Stream]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(stream.layer for stream in streams)
        self.config = copy(config)
        self.config.bidirectional, self.config.num_hidden_layers = False, len(streams)
        self.config.cell = ",".join(stream.word for stream in streams)


class AnswerOfWhole(StepAnswer):
    """A step of every stream, each reading its own part of a row of `Whole`, which has the answer too."""

    whole = True

    def __init__(self, model: GatedRNNClassifier) -> None:
        context = Whole(model)
        super().__init__(Streams(model.config, context.streams), context=context)
        self.answers, self.parts = _answers(model), [] if context.path is None else PARTS
        self.places = [stream.place for stream in context.streams]
        with torch.no_grad():
            self.example = context(context.example)[:1]
        self.sizes = [x.shape[2] for layer in context.replaced for x in layer.read]
        self.sizes.append(self.example.shape[1] - sum(self.sizes))

    def forward(self, read: Tensor, cache: GatedRNNCache) -> Said:
        *inputs, answer = read.split(self.sizes, dim=1)
        for number, (layer, x) in enumerate(zip(self.model.layers, inputs, strict=True)):
            _, state = layer.step(x, cache.read(number, 1), wide_state=True)
            cache.write(number, state)
        return Said(answer, ())


def _answers(model: GatedRNNClassifier) -> Answers:
    if not isinstance(model, GatedRNNForSequenceClassification):
        return "label of the step"
    if model.config.problem_type == "regression":
        return "numbers"
    return "labels" if model.config.problem_type == "multi_label_classification" else "label"
