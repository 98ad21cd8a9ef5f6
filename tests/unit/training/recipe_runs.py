"""The recipe of each task on a little data, in a few steps, and its models as a user opens them."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from commands import call
from text_targets import films, moods, sentences, write_lines
from train_helpers import measurements, numbered, rising_and_falling, seasons, small_text
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoModelForTimeSeriesPrediction,
    AutoModelForTokenClassification,
    AutoTokenizer,
)

import gatedrnn.models  # noqa: F401  registers the Auto classes
from gatedrnn.data.frames import NewData
from gatedrnn.training.answering import Asked, answering

SMALL = "--cell mingru --hidden-size 6 --batch-size 8 --total-steps 9 --checkpoint-every 4".split()
SMALL += "--log-every 2 --threads 1 --baselines none".split()


class Recipe(NamedTuple):
    """A recipe, and the data that it is tried on."""

    write: Callable
    """Writes a file, whose name is given, with rows of a seed."""
    parts: str
    """The parts of its model, as `describe` names them."""
    flags: str = ""
    scores: dict[str, str] = {"loss": "test_loss", "accuracy": "test_accuracy"}
    """The scores of `evaluate`, and their names in result.json."""
    opened: Any = AutoModelForSequenceClassification
    file: str = "a.jsonl"
    embedding_size: int = 6
    unseen: str = ""
    """The reason why the page of `gatedrnn view` does not show it."""


def of_rows(rows, *names):
    return lambda path, count, seed=0: write_lines(path, [{n: row[n] for n in names} for row in rows(count, seed)])


TEXT = "character n-grams, embedding, cells, head, linear path"
SERIES = ("embedding, convolutions, cells, head, linear path", "--convolution-size 6 --random-convolutions 500")
NUMBER = {"mae": "test_mae"}
FORECAST = "--target heat --series-column place --time-column when --horizon 6 --season 12 --context 24"
FORECAST += " --validation-fraction 0.3 --learning-rate 0.02"  # with which training counts, and is done again
RECIPES = {
    "label": Recipe(of_rows(moods, "text", "label"), TEXT),
    "members": Recipe(of_rows(moods, "text", "label"), TEXT, "--members 2"),
    "several labels": Recipe(
        of_rows(films, "text", "genres"), TEXT, scores={"macro_f1": "test_macro_f1", "loss": "test_loss"},
    ),
    "number": Recipe(of_rows(films, "text", "score"), TEXT, scores=NUMBER),
    "tags": Recipe(
        of_rows(sentences, "tokens", "tags"), "embedding, cells, head", opened=AutoModelForTokenClassification,
    ),
    "series": Recipe(rising_and_falling, *SERIES, file="a.csv", embedding_size=0),
    "numbers of series": Recipe(
        numbered, SERIES[0], f"--task series-regression {SERIES[1]}", NUMBER, file="a.csv", embedding_size=0,
    ),
    "uneven series": Recipe(measurements, "embedding, decay of inputs, cells, head", file="a.csv",
                            unseen="reads uneven times"),
    "forecast": Recipe(
        lambda path, count, seed=0: seasons(path, future=0), "smoothers, embedding, cells, head", FORECAST,
        {"mase": "test_mase", "coverage": "test_coverage"}, AutoModelForTimeSeriesPrediction, "a.csv",
    ),
    "members that forecast": Recipe(
        lambda path, count, seed=0: seasons(path, future=0), "smoothers, embedding, cells, head",
        f"{FORECAST} --members 2", {"mase": "test_mase", "coverage": "test_coverage"},
        AutoModelForTimeSeriesPrediction, "a.csv",
    ),
    "language": Recipe(
        lambda path, count, seed=0: small_text(path), "embedding, cells, blocks, head", "--length 16",
        {"perplexity": "test_perplexity", "bits_per_byte": "test_bits_per_byte"}, AutoModelForCausalLM, "a.txt",
    ),
}  # fmt: skip
FORECASTERS = [name for name in RECIPES if RECIPES[name].opened is AutoModelForTimeSeriesPrediction]
CLASSIFIERS = [name for name in RECIPES if name not in (*FORECASTERS, "language")]


def begun(name, folder, output):
    """The command that trains it, in a folder of its own."""
    recipe = RECIPES[name]
    file = folder / recipe.file
    if not file.exists():
        recipe.write(file, 80)
    command = ["forecast", file] if name in FORECASTERS else ["train", "--train-file", file]
    sizes = ["--embedding-size", recipe.embedding_size]
    return [*command, *SMALL, *sizes, *recipe.flags.split(), "--output", output]


def predicted(run, file):
    """Each row of a file with what `gatedrnn predict` adds."""
    output = file.with_name("found.jsonl")
    call("predict", run, file, "--output", output, "--threads", "1")
    return [json.loads(line) for line in output.read_text().splitlines()]


def read_by_auto(run, file, rows, opened):
    """The outputs of an Auto class with an Auto tokenizer for each row by itself: (labels,), or (time, labels)."""
    model = opened.from_pretrained(run / "model").eval()
    with torch.no_grad():
        return model, [model(**given).logits[0].double() for given in inputs_of(run, file, rows)]


def inputs_of(run, file, rows):
    """Rows as a model takes them, each a batch."""
    if (run / "model" / "tokenizer.json").exists():
        tokenizer = AutoTokenizer.from_pretrained(run / "model")
        for row in rows:
            words, text = row.get("tokens"), row.get("text")
            batch = tokenizer(words or text, is_split_into_words=text is None, truncation=True, return_tensors="pt")
            yield {name: batch[name] for name in ("input_ids", "attention_mask")}
        return
    read = answering(run).rows(NewData(file), Asked(), labelled=False)
    for place, values in enumerate(read.inputs):
        gaps = {} if read.gaps is None else {"gaps": torch.tensor(np.array(read.gaps[place]))[None].float()}
        yield {"input_values": torch.tensor(np.array(values))[None]} | gaps


def as_predicted(logits, config):
    """Logits as the columns of predictions have them."""
    names = [config.id2label[place] for place in range(config.num_labels)]
    if config.problem_type == "regression":
        return {"prediction": float(logits[0])}
    shares = logits.sigmoid() if config.problem_type == "multi_label_classification" else logits.softmax(-1)
    return {f"probability_{name}": shares[..., place].tolist() for place, name in enumerate(names)}
