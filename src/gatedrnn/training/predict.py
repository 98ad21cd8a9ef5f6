"""Predictions of a finished classifier, labeller of steps or regression, for rows of a file or of a split of its
data.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import torch
from scipy.special import expit
from transformers import PreTrainedTokenizerFast

from gatedrnn.data import Examples
from gatedrnn.data.files import labels_in_column, texts_in_column, with_names
from gatedrnn.data.frames import typed
from gatedrnn.data.labels import SEPARATOR, as_trained, several_in_column, several_in_columns
from gatedrnn.data.text import encode_texts
from gatedrnn.errors import DataError
from gatedrnn.models.configuration import GatedRNNConfig
from gatedrnn.models.opening import Finished
from gatedrnn.records import Json
from gatedrnn.tables.files import Source, read_table, said_columns
from gatedrnn.tables.options import recorded_dialect
from gatedrnn.tables.table import Table, type_named

IGNORED = -100
SEVERAL = "multi_label_classification"
"""The name in transformers of several labels a row."""
PREDICTION, PROBABILITY = "prediction", "probability_"


class Rows(NamedTuple):
    """Rows of a file, as a model reads them."""

    data: Table
    """All columns of the file."""
    inputs: list[np.ndarray]
    """Token numbers (time,) or numbers (time, features) of each row."""
    labels: list[np.ndarray] | None
    """The label of each row: one number of a class or value, (), or one a step, (time,); None if they were not asked
    for."""
    notes: list[str]
    """Texts that are empty or were cut."""
    gaps: list[np.ndarray] | None = None
    """The time since the step before in each uneven series, (time,)."""
    words: list[np.ndarray] | None = None
    """The step at which each word of a row begins, (words,); -1 for those that were cut off."""


def read_labelled_rows(
    finished: Finished, source: Source, text_column: str | None, label_column: Sequence[str], *, labelled: bool
) -> Rows:
    """The rows of a CSV, TSV, JSON-lines or Parquet file, or of a table.

    A model of texts reads the column that it was trained on. Any other reads `input_ids` (token numbers) or
    `input_values` (a list of numbers for each step), as lists or as JSON in a text; its labels stand in `labels` or
    `label`.

    Args:
        finished: the model that shall read them.
        source: where they are.
        text_column, label_column: other names than those; no name of a label for those, several for columns of 0 and 1.
        labelled: whether labels are read.

    Raises:
        DataError: the file or a column of it cannot be read, or a row or label does not fit the model.
    """
    config, tokenizer = finished.model.config, finished.tokenizer
    dialect = recorded_dialect({} if tokenizer is None else tokenizer.init_kwargs)
    data = read_table(source, dialect)
    place, notes = data.place, list[str]()
    if not len(data):
        raise DataError(f"{place}: there are columns but no rows")
    if tokenizer is not None:
        recorded = recorded_column(tokenizer, "text_column", "text")
        data = data if text_column is not None else with_names(data, place, recorded)
        column = column_to_read(data, place, "text", text_column, [recorded])
        longest = min(tokenizer.model_max_length, 1 << 40)  # transformers' number for no limit fits no slice
        inputs = encode_texts(tokenizer, texts_in_column(data, place, column), longest, data.name, notes)
    else:
        name = "input_values" if config.vocab_size is None else "input_ids"
        column = column_to_read(data, place, "text", text_column, [name])
        inputs = [_sequence(value, config, f"{place}: row {n}") for n, value in enumerate(data[column], start=1)]
    labels, roles = None, dict[str, str | list[str]]({"text" if tokenizer is not None else "input": column})
    if labelled:
        columns = label_columns(finished, data, place, label_column)
        roles["label"] = columns
        labels = _labels(finished, data, place, columns, inputs)
    return Rows(data, inputs, labels, [said_columns(data.name, roles, data.column_names), *notes])


def check_known(labels: Sequence[str], names: Sequence[str], place: str) -> None:
    """Check that a model knows the labels of a row.

    Raises:
        DataError: it does not know one.
    """
    unknown = next((label for label in labels if label not in names), None)
    if unknown is not None:
        raise DataError(
            f"{place}: the label {_cut(unknown)!r} is not one that the model was trained on: {_cut(', '.join(names))}"
        )


def numbered(labels: Sequence[str], places: Sequence[str], config: GatedRNNConfig, file: str) -> list[np.ndarray]:
    """The numbers of the classes of some rows, () each.

    Raises:
        DataError: the model does not know one; its place is named.
    """
    names = class_names(config)
    labels = as_trained(labels, names)
    for label, place in zip(labels, places, strict=True):
        check_known([label], names, f"{file}: {place}")
    numbers = {name: number for number, name in enumerate(names)}
    return [np.array(numbers[label]) for label in labels]


def row_names(labels: Sequence[str]) -> list[str]:
    return [f"row {row}" for row in range(1, len(labels) + 1)]


class Predicted(NamedTuple):
    """Some data, and what a model adds to them."""

    data: Table
    """The columns of the data; of forecasts, the steps that come after them."""
    added: dict[str, list[Json]]
    notes: list[str]
    types: dict[str, pa.DataType]
    """The types of columns, as far as the data and the labels of training tell them."""


@torch.no_grad()
def outputs_of(finished: Finished, inputs: list[np.ndarray], gaps: list[np.ndarray] | None = None) -> list[np.ndarray]:
    """The model's output for each row, in their order: (labels,), or (time, labels) for a label at every step."""
    examples = Examples(inputs, np.full(len(inputs), IGNORED), gaps=gaps)
    outputs: list[np.ndarray] = [np.empty(0)] * len(inputs)
    for rows in examples.evaluation_rows():
        batch = examples.collate(rows)
        del batch["labels"]
        logits = finished.model(**batch).logits.double().numpy()
        for row, output in zip(rows, logits, strict=True):
            outputs[row] = output if finished.model.pools else output[: len(inputs[row])]
    return outputs


def label_of(output: np.ndarray, names: Sequence[str]) -> str:
    """The labels that an output (labels,) has, or a row of zeros and ones, with | between them."""
    return SEPARATOR.join(name for name, score in zip(names, output, strict=True) if score > 0)


def class_names(config: GatedRNNConfig) -> list[str]:
    """The names of the classes, in the order of the model's outputs."""
    return [str(config.id2label[number]) for number in range(config.num_labels)]


def class_values(config: GatedRNNConfig) -> list[Json]:
    """The classes as the labels that came in, in the order of the model's outputs: 1 and not "1" where they were
    numbers."""
    names = class_names(config)
    return cast(
        list[Json], names if config.label_type is None else typed(names, type_named(config.label_type)).to_pylist()
    )


def log_probabilities(outputs: np.ndarray) -> np.ndarray:
    """The log-probabilities of the classes, from outputs (…, classes)."""
    shifted = outputs - outputs.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def prediction_columns(finished: Finished, outputs: list[np.ndarray]) -> dict[str, list[Json]]:
    """The columns that are added to a file: the prediction, and the probability of each class.

    Where there is a label at every step, each is a list with one entry a step; of several labels a row, the prediction
    is those that are likelier than not, with | between them.
    """
    if finished.model.config.problem_type == "regression":
        return {PREDICTION: [float(output[0]) for output in outputs]}
    names = class_names(finished.model.config)
    if finished.model.config.problem_type == SEVERAL:
        shares = {f"{PROBABILITY}{name}": expit([output[n] for output in outputs]) for n, name in enumerate(names)}
        return {PREDICTION: [label_of(output, names) for output in outputs]} | {
            name: column.tolist() for name, column in shares.items()
        }
    values = np.empty(len(names), object)
    values[:] = class_values(finished.model.config)
    chosen = [values[output.argmax(-1)] for output in outputs]
    chosen = [label.tolist() if isinstance(label, np.ndarray) else label for label in chosen]
    probabilities = [np.exp(log_probabilities(output)) for output in outputs]
    return {PREDICTION: chosen} | {
        f"{PROBABILITY}{name}": [shares_of_part[..., number].tolist() for shares_of_part in probabilities]
        for number, name in enumerate(names)
    }


def recorded_column(tokenizer: PreTrainedTokenizerFast, name: str, otherwise: str) -> str:
    """The name of a column in training; models of earlier versions do not have it."""
    return str(tokenizer.init_kwargs.get(name, otherwise))


def column_to_read(data: Table, place: str, what: str, asked: str | None, usual: list[str]) -> str:
    """The column to read: the one asked for, or that of training.

    Raises:
        DataError: the file does not have it.
    """
    names = data.column_names
    column = next((name for name in ([asked] if asked is not None else usual) if name in names), None)
    if column is None:
        wanted = repr(asked) if asked is not None else " or ".join(map(repr, usual))
        trained = "" if asked is not None else f", which the model reads; name another with --{what}-column"
        raise DataError(f"{place}: no column {wanted}{trained}. Columns: {', '.join(names)}")
    return column


def _sequence(value: Any, config: GatedRNNConfig, place: str) -> np.ndarray:
    """One row's input out of a list, or a text that holds one as JSON."""
    sequence = _array(value, place)
    if not len(sequence):
        raise DataError(f"{place}: is empty; a sequence has at least one step")
    if config.vocab_size is not None:
        if (
            sequence.ndim != 1
            or (sequence != sequence.astype(np.int64)).any()
            or not _within(sequence, config.vocab_size)
        ):
            raise DataError(f"{place}: must be token numbers from 0 to {config.vocab_size - 1}, got {_cut(value)}")
        return sequence.astype(np.int64)
    steps = sequence[:, None] if sequence.ndim == 1 and config.input_size == 1 else sequence
    if steps.ndim != 2 or steps.shape[1] != config.input_size or not np.isfinite(steps).all():
        raise DataError(
            f"{place}: must be lists of finite numbers, {config.input_size} for each step, got {_cut(value)}"
        )
    return steps.astype(np.float32)


def _within(values: np.ndarray, size: int) -> bool:
    return bool(((values >= 0) & (values < size)).all())


def one_column(columns: Sequence[str]) -> str:
    """The only one of the columns that are asked for.

    Raises:
        DataError: there are several.
    """
    if len(columns) > 1:
        raise DataError(f"--label-column: this model has one column of labels, got {', '.join(columns)}")
    return columns[0]


def label_columns(finished: Finished, data: Table, place: str, asked: Sequence[str]) -> list[str]:
    """The columns that labels are read from: those asked for, or those of training."""
    config, tokenizer = finished.model.config, finished.tokenizer
    trained = None if tokenizer is None else tokenizer.init_kwargs.get("label_column", "label")
    several = config.problem_type == SEVERAL and (len(asked) > 1 or (not asked and isinstance(trained, list)))
    if several:
        columns = list(asked) or cast(list[str], trained)
        return [column_to_read(data, place, "label", None, [column]) for column in columns]
    usual = ["labels", "label"] if trained is None else [trained] if isinstance(trained, str) else []
    return [column_to_read(data, place, "label", one_column(asked) if asked else None, usual)]


def _labels(
    finished: Finished, data: Table, place: str, columns: list[str], inputs: list[np.ndarray]
) -> list[np.ndarray]:
    config, column = finished.model.config, columns[0]
    if config.problem_type == SEVERAL:
        several = len(columns) > 1
        sets = several_in_columns(data, place, columns) if several else several_in_column(data, place, column)
        return _indicators(sets, class_names(config), place)
    if not finished.model.pools:
        names = {name: number for number, name in enumerate(class_names(config))}
        return [
            _step_labels(value, names, len(steps), f"{place}: row {row}")
            for row, (value, steps) in enumerate(zip(data[column], inputs, strict=True), start=1)
        ]
    labels, _ = labels_in_column(data, place, column)
    if config.problem_type == "regression":
        return [np.array(label_number(label, f"{place}: row {row}")) for row, label in enumerate(labels, start=1)]
    return numbered(labels, row_names(labels), config, place)


def _step_labels(value: Any, names: dict[str, int], steps: int, place: str) -> np.ndarray:
    """The classes of each step; -100 or nothing where a step has none."""
    labels = as_trained([str(IGNORED) if label is None else str(label) for label in _listed(value, place)], [*names])
    if len(labels) != steps:
        raise DataError(
            f"{place}: must have a label for each of {steps} steps, got {len(labels)}; -100 for a step without one"
        )
    classes = []
    for label in labels:
        if label == str(IGNORED):
            classes.append(IGNORED)
        elif label in names:
            classes.append(names[label])
        else:
            known = _cut(", ".join(names))
            raise DataError(f"{place}: the label {_cut(label)!r} is not one that the model was trained on: {known}")
    return np.array(classes, dtype=np.int64)


def _indicators(sets: list[tuple[str, ...]], names: list[str], place: str) -> list[np.ndarray]:
    """The indicators of each row, (labels,): 1 for each label that it has, 0 for all others."""
    rows = []
    for row, labels in enumerate((as_trained(labels, names) for labels in sets), start=1):
        check_known(labels, names, f"{place}: row {row}")
        rows.append(np.array([float(name in labels) for name in names]))
    return rows


def label_number(label: str, place: str) -> float:
    try:
        number = float(label)
    except ValueError:
        number = float("nan")
    if not np.isfinite(number):
        raise DataError(f"{place}: the label must be a finite number, got {_cut(label)!r}")
    return number


def _array(value: Any, place: str) -> np.ndarray:
    try:
        return np.array(_listed(value, place), dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise DataError(
            f"{place}: must hold a list of numbers, or of as many numbers each, got {_cut(value)}"
        ) from error


def _listed(value: Any, place: str) -> list[Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            pass
    if not isinstance(value, list):
        raise DataError(f"{place}: must hold a list, got {_cut(value)}")
    return value


def _cut(value: Any) -> str:
    """The beginning of a long value, for a message of one line."""
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
