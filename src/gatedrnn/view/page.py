"""The page of a trained model: what it is made of, and the file that works without a network."""

import base64
import gzip
import json
import logging
import math
import shutil
import subprocess
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import torch
from transformers import PreTrainedTokenizerFast

from gatedrnn.data.tokenizers import is_by_line
from gatedrnn.data.windows import NEVER_VARIES, Windows
from gatedrnn.errors import DataError, Error, TooLarge
from gatedrnn.inspect.describe import describe
from gatedrnn.inspect.trace import Traced, trace
from gatedrnn.kinds import kind_of
from gatedrnn.layers import RecurrentLayer
from gatedrnn.models import GatedRNNForForecasting, GatedRNNForSequenceClassification
from gatedrnn.models.opening import Finished
from gatedrnn.training.finished import data_of, open_finished
from gatedrnn.training.folder import RunFolder
from gatedrnn.view.answer import Place, StepAnswer
from gatedrnn.view.kinds import step_answer
from gatedrnn.view.record import ViewLayer, ViewModel, ViewState, ViewTokenizer
from gatedrnn.view.step import WatchedStep, context_graph, first_step, number_names, watched_graph
from gatedrnn.view.untrained import untrained_model

LOG = logging.getLogger("gatedrnn")
_BUILT = Path(__file__).with_name("page.html")
"""The page without a model, as `make view` leaves it."""
_PLACE = "MODELS_GO_HERE"
LARGEST = 8_000_000
"""Parameters of all models of a page together: a browser has them in memory several times over."""
EXAMPLE = "The gate opens. The state remembers what it let in, and the gate closes again.\n"
SYMBOLS = (0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 1)
FEWEST, PERIOD = 24, 12
"""Steps of an example of numbers, and how often it repeats where a model knows no season."""
_STEPS_COMPARED = 4
_NEVER = "\0"  # begins no word


def page_of(folders: Sequence[Path], untrained: bool = False) -> str:
    """The page with the models of finished runs, as one HTML file.

    Args:
        folders: of the runs.
        untrained: show each model beside itself before its training.

    Raises:
        DataError: a run has no model, or one that the page cannot show.
        TooLarge: the models have more parameters than `LARGEST`.
    """
    models = [view_of(folder) for folder in folders]
    models += [view_of(folder, untrained=True) for folder in folders if untrained]
    if len({(model.reads, model.columns) for model in models}) > 1:
        read = " and ".join(model.title + ": " + model.reads for model in models)
        raise DataError(f"the models do not read the same ({read}), so that nothing could be typed for all; view each")
    total = sum(model.parameters for model in models)
    if total > LARGEST:
        raise TooLarge(f"{total:,} parameters are more than the page shows, {LARGEST:,}; view a smaller model")
    text = json.dumps([_plain(model) for model in models], ensure_ascii=True).replace("<", "\\u003c")
    return built_page().read_text(encoding="utf-8").replace(_PLACE, text, 1)


def view_of(folder: Path, untrained: bool = False) -> ViewModel:
    """A finished run's model as the page takes it, or the one that the run began with.

    Raises:
        DataError: there is none, or one that the page cannot show.
    """
    finished = open_finished(folder)
    if untrained:
        finished = finished._replace(model=untrained_model(folder))
    model: Any = finished.model.eval().float()
    config, answer = model.config, step_answer(model, str(folder))
    context, step = answer.context, WatchedStep(answer)
    held: Any = context if answer.whole else model
    seen, answer_size = first_step(step)
    initial = step.initial()
    numbers = np.concatenate([state[0].numpy() for state in initial.values()]).astype("<f4")
    forecasts = isinstance(model, GatedRNNForForecasting)
    example, example_of = _example(folder, finished, answer)
    return ViewModel(
        title=f"{', '.join(dict.fromkeys(str(cell.name) for cell in config.cells))} · {folder.name}",
        trained=not untrained,
        reads="numbers" if config.vocab_size is None else "symbols" if finished.tokenizer is None else "text",
        columns=1 if forecasts or config.vocab_size is not None else config.input_size,
        missing=forecasts or bool(config.flagged_channels),
        read_type=str(answer.example.dtype).removeprefix("torch."),  # type: ignore[arg-type]
        context=None if context is None else _packed(context_graph(context)),
        answers=answer.answers,
        whole=answer.whole,
        pooling=config.pooling.split("-") if isinstance(model, GatedRNNForSequenceClassification) else [],
        parts=answer.parts,
        answer_size=answer_size,
        levels=config.levels if forecasts else [],
        parameters=sum(p.numel() for p in held.parameters()),
        step=_packed(watched_graph(step, seen)),
        states=[ViewState(name, state.shape[1]) for name, state in initial.items()],
        initial=base64.b64encode(numbers.tobytes()).decode(),
        layers=_layers(answer, seen),
        tokenizer=None if finished.tokenizer is None else _tokenizer(finished.tokenizer),
        begin=config.bos_token_id if answer.answers == "next" else None,
        unknown=config.unk_token_id,
        symbols=config.vocab_size or 0,
        labels=[config.id2label[n] for n in range(config.num_labels)] if answer.answers.startswith("label") else [],
        example=example,
        example_of=example_of,
    )


def _example(folder: Path, finished: Finished, answer: StepAnswer) -> tuple[str, Literal["run", "waves", ""]]:
    """The input that the page begins with, and what its numbers are: a sentence, symbols, the last values of a run's
    own series, or waves of the size that the model was trained on."""
    config: Any = finished.model.config
    if finished.tokenizer is not None:
        return EXAMPLE, ""
    if config.vocab_size is not None:
        return " ".join(str(n % config.vocab_size) for n in SYMBOLS), ""
    if answer.answers == "forecast" and (own := _own_series(folder)):
        return own, "run"
    period, columns = PERIOD, config.input_size
    means, deviations = config.channel_means or [0.0] * columns, config.channel_deviations or [1.0] * columns
    if answer.answers == "forecast":
        means, deviations, period = [100.0], [10.0], config.periods[0] if config.periods[0] > 1 else PERIOD
    spreads = [0.0 if deviation == NEVER_VARIES else deviation for deviation in deviations]
    rows = [
        " ".join(f"{mean + spread * wave:.2f}" for mean, spread in zip(means, spreads, strict=True))
        for wave in (math.sin(2 * math.pi * t / period) for t in range(max(FEWEST, 3 * period)))
    ]
    return "\n".join(rows) if len(means) > 1 else " ".join(rows), "waves"


def _own_series(folder: Path) -> str:
    """The last window of the first series of a run of forecasts; "" where its data are not there, or have changed."""
    try:
        windows = data_of(RunFolder(folder)).train
    except (Error, OSError):
        return ""
    if not isinstance(windows, Windows):
        return ""
    last = windows.series[0].values[-windows.context :]
    known = np.flatnonzero(~np.isnan(last))
    return " ".join(f"{value:.6g}" for value in last[known[0] :]) if len(known) else ""


def _layers(answer: StepAnswer, seen: list[Traced]) -> list[ViewLayer]:
    layers = [module for module in answer.model.modules() if isinstance(module, RecurrentLayer)]
    stacked = [layer for layer in layers for _ in range(layer.num_layers)]
    places = answer.places or [Place(f"layer {number}", False) for number in range(1, len(stacked) + 1)]
    views, first = list[ViewLayer](), 0
    drawn = [one for layer in layers for one in _over_random(layer)]
    for place, layer, traced, random in zip(places, stacked, seen, drawn, strict=True):
        names, (decay_gate, inverted) = number_names(traced), _gate_of_decay(random)
        layer_view = ViewLayer(
            name=place.name, reverse=place.reverse, cell=layer.cell.name, channels=traced.memory.shape[-1],
            gates=list(traced.gates), decay="decay" in names, written="written" in names,
            decay_gate=decay_gate, decay_inverted=inverted, scan=not kind_of(layer.cell).facts(layer.cell).iterates,
            memory=first + layer.cell.memory, equations=describe(layer).equations,
        )  # fmt: skip
        views.append(layer_view)
        first += len(layer.state_names)
    return views


def _over_random(layer: RecurrentLayer) -> list[Traced]:
    """The traces of a layer over random input, on which two gates are equal only where they are the same."""
    generator = torch.Generator().manual_seed(0)
    return list(trace(layer, torch.randn(1, _STEPS_COMPARED, layer.input_size, generator=generator)))


def _gate_of_decay(traced: Traced) -> tuple[str, bool]:
    """The gate whose strip would show the same as the decay's, and whether the decay is 1 minus it; "" for none."""
    if (decay := traced.decay) is not None:
        for inverted, (name, gate) in product((False, True), traced.gates.items()):
            if torch.allclose(1 - gate if inverted else gate, decay, rtol=0, atol=1e-6):
                return name, inverted
    return "", False


def _tokenizer(tokenizer: PreTrainedTokenizerFast) -> ViewTokenizer:
    """The tokenizer as tokenizers.js reads it, which knows no table of whole words: it becomes one of word pieces
    without pieces.
    """
    content: dict[str, Any] = json.loads(tokenizer.backend_tokenizer.to_str())
    if content["model"]["type"] == "WordLevel":
        content["model"] = {
            "type": "WordPiece", "unk_token": content["model"]["unk_token"], "vocab": content["model"]["vocab"],
            "continuing_subword_prefix": _NEVER, "max_input_chars_per_word": 1_000_000,
        }  # fmt: skip
    stream = "stream_kind" in tokenizer.init_kwargs
    return ViewTokenizer(content, {"model_max_length": 10**9}, stream and is_by_line(tokenizer))


def _packed(graph: onnx.ModelProto) -> str:
    return base64.b64encode(gzip.compress(graph.SerializeToString(), mtime=0)).decode()


def _plain(record: Any) -> Any:
    """Records and what is in them as dictionaries."""
    if hasattr(record, "_asdict"):
        return {name: _plain(value) for name, value in record._asdict().items()}
    return [_plain(item) for item in record] if isinstance(record, list) else record


def built_page() -> Path:
    """The page without a model; built first where this is a source checkout and node is there.

    Raises:
        DataError: it is not there and cannot be built.
    """
    source = Path(__file__).parents[3]
    if _BUILT.exists():
        return _BUILT
    if not (source / "view").is_dir():
        raise DataError(
            "this installation has no page for `gatedrnn view`: install Node.js 20 or newer, run `make view` in the "
            "folder of gatedrnn's source, and install from there again"
        )
    if shutil.which("npm") is None:
        raise DataError("the page is not built: install Node.js 20 or newer; the first `gatedrnn view` then builds it")
    LOG.info("building the page from what view/package-lock.json names, once")
    done = subprocess.run(["make", "view"], cwd=source, capture_output=True, text=True)
    if done.returncode:
        raise DataError(f"the page could not be built; `make view` said: {done.stderr.strip()[-500:]}")
    return _BUILT
