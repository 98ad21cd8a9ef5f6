"""The page of a trained model: what it is made of, and the file that works without a network."""

import base64
import gzip
import json
import logging
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn
from transformers import PreTrainedTokenizerFast

from gatedrnn.data.tokenizers import is_by_line
from gatedrnn.errors import DataError, TooLarge
from gatedrnn.export.onnx import beginning, input_name, state_names
from gatedrnn.inspect.describe import describe
from gatedrnn.inspect.trace import Traced
from gatedrnn.layers import RecurrentLayer
from gatedrnn.models import GatedRNNForCausalLM, GatedRNNForSequenceClassification
from gatedrnn.train.finished import open_finished
from gatedrnn.view.record import ViewLayer, ViewModel, ViewState, ViewTokenizer
from gatedrnn.view.step import demand_steps, first_step, number_names, watched_graph

LOG = logging.getLogger("gatedrnn")
BUILT = Path(__file__).with_name("page.html")
"""The page without a model, as `make view` leaves it."""
PLACE = "MODELS_GO_HERE"
LARGEST = 8_000_000
"""Parameters of all models of a page together: a browser has them in memory several times over."""
EXAMPLE = "The gate opens. The state remembers what it let in, and the gate closes again.\n"
SYMBOLS = (0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 1)
NEVER = "\0"  # begins no word


def page_of(folders: Sequence[Path]) -> str:
    """The page with the models of finished runs, as one HTML file.

    Raises:
        DataError: a run has no model, or one that the page cannot show.
        TooLarge: the models have more parameters than `LARGEST`.
    """
    models = [view_of(folder) for folder in folders]
    total = sum(model.parameters for model in models)
    if total > LARGEST:
        raise TooLarge(f"{total:,} parameters are more than the page shows, {LARGEST:,}; view a smaller model")
    text = json.dumps([_plain(model) for model in models], ensure_ascii=True).replace("<", "\\u003c")
    return built_page().read_text(encoding="utf-8").replace(PLACE, text, 1)


def view_of(folder: Path) -> ViewModel:
    """A finished run's model as the page takes it.

    Raises:
        DataError: there is none, or one that the page cannot show.
    """
    found = open_finished(folder)
    model: Any = found.model.eval().float()
    demand_steps(model, str(folder))
    pooled = isinstance(model, GatedRNNForSequenceClassification) and model.config.pooling != "last"
    answers = "next" if isinstance(model, GatedRNNForCausalLM) else "nothing" if pooled else "classes"
    labels = [] if answers != "classes" else [model.config.id2label[n] for n in range(model.config.num_labels)]
    initial = beginning(model, 1)
    seen = first_step(model, initial)
    graph = watched_graph(model, answers != "nothing", initial, seen)
    numbers = np.concatenate([state[0].numpy() for state in initial]).astype("<f4")
    vocabulary = int(model.config.vocab_size)
    return ViewModel(
        title=f"{', '.join(dict.fromkeys(str(cell.name) for cell in model.config.cells))} · {folder.name}",
        cells=[str(cell.name) for cell in model.config.cells],
        reads="symbols" if found.tokenizer is None else "text",
        answers=answers,  # type: ignore[arg-type]
        answer_size={"next": vocabulary, "classes": len(labels), "nothing": 0}[answers],
        parameters=sum(p.numel() for p in model.parameters()),
        step=_packed(graph.SerializeToString()),
        states=[
            ViewState(input_name(name), state.shape[1]) for name, state in zip(state_names(model), initial, strict=True)
        ],
        initial=base64.b64encode(numbers.tobytes()).decode(),
        layers=_layers(model, seen),
        tokenizer=None if found.tokenizer is None else _tokenizer(found.tokenizer),
        begin=model.config.bos_token_id if answers == "next" else None,
        unknown=model.config.unk_token_id,
        symbols=vocabulary,
        labels=labels,
        example=EXAMPLE if found.tokenizer is not None else " ".join(str(n % vocabulary) for n in SYMBOLS),
    )  # fmt: skip


def _layers(model: nn.Module, seen: list[Traced]) -> list[ViewLayer]:
    layers = [module for module in model.modules() if isinstance(module, RecurrentLayer)]
    stacked = [layer for layer in layers for _ in range(layer.num_layers)]
    found, first = list[ViewLayer](), 0
    for number, (layer, traced) in enumerate(zip(stacked, seen, strict=True), start=1):
        names = number_names(traced)
        one = ViewLayer(
            name=f"layer {number}", cell=layer.cell.name, channels=traced.memory.shape[-1], gates=list(traced.gates),
            decay="decay" in names, written="written" in names, scan=not layer.cell.reads_state,
            memory=first + layer.cell.memory, equations=describe(layer).equations,
        )  # fmt: skip
        found.append(one)
        first += layer.cell.carried
    return found


def _tokenizer(tokenizer: PreTrainedTokenizerFast) -> ViewTokenizer:
    """As tokenizers.js reads it, which knows no table of whole words: it becomes one of word pieces without pieces."""
    content: dict[str, Any] = json.loads(tokenizer.backend_tokenizer.to_str())
    if content["model"]["type"] == "WordLevel":
        content["model"] = {
            "type": "WordPiece", "unk_token": content["model"]["unk_token"], "vocab": content["model"]["vocab"],
            "continuing_subword_prefix": NEVER, "max_input_chars_per_word": 1_000_000,
        }  # fmt: skip
    stream = "stream_kind" in tokenizer.init_kwargs
    return ViewTokenizer(content, {"model_max_length": 10**9}, stream and is_by_line(tokenizer))


def _packed(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, mtime=0)).decode()


def _plain(record: Any) -> Any:
    """Records and what is in them as dictionaries."""
    if hasattr(record, "_asdict"):
        return {name: _plain(value) for name, value in record._asdict().items()}
    return [_plain(one) for one in record] if isinstance(record, list) else record


def built_page() -> Path:
    """The page without a model; built first where this is a source checkout and node is there.

    Raises:
        DataError: it is not there and cannot be built.
    """
    source = Path(__file__).parents[3]
    if BUILT.exists():
        return BUILT
    if not (source / "view").is_dir() or shutil.which("npm") is None:
        raise DataError("the page is not built: install Node.js 20 or newer, and run `make view` in the source folder")
    LOG.info("building the page from what view/package-lock.json names, once")
    done = subprocess.run(["make", "view"], cwd=source, capture_output=True, text=True)
    if done.returncode:
        raise DataError(f"the page could not be built; `make view` said: {done.stderr.strip()[-500:]}")
    return BUILT
