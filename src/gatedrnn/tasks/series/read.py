"""Series with a class or a number each as a task: files, splits, and the scale of the training split, which the model
keeps."""

from dataclasses import replace
from typing import TypeVar, cast

import numpy as np

from gatedrnn.data.batches import Examples, weights_of
from gatedrnn.data.files import in_order
from gatedrnn.data.label_arrays import notes_on_repeats, numbers_of_groups, of_groups, of_times
from gatedrnn.data.labels import as_trained
from gatedrnn.data.settings import SERIES_REGRESSION
from gatedrnn.data.task import TaskData
from gatedrnn.data.windows import deviation_of, scale_of
from gatedrnn.errors import DataError
from gatedrnn.records import Json
from gatedrnn.tables.numbers import LARGEST
from gatedrnn.tasks.series.fields import LabelledSeries
from gatedrnn.tasks.series.files import Reading, check_alike, check_float32, read_series
from gatedrnn.tasks.series.settings import SeriesSettings

Own = TypeVar("Own")


def load_series_task(settings: SeriesSettings) -> TaskData:
    """Series of one or more channels, of equal or unequal lengths, with a class each, or with a number.

    Raises:
        DataError: a file cannot be used, a split cannot be made, or a label is no number where one is asked for.
    """
    if settings.train_file is None:
        raise DataError(
            f"{settings.task}: needs --train-file: .ts, a table (CSV, TSV, JSON lines, Parquet) with a row a time, or "
            "one that names WAV files"
        )
    notes: list[str] = []
    several = {name: ",".join(getattr(settings, name)) or None for name in ("series_column", "time_column")}
    reading = Reading(**{name: getattr(settings, name) for name in Reading._fields} | several)
    read = {"train": read_series(settings.train_file, reading)}
    for split, file in (("validation", settings.validation_file), ("test", settings.test_file)):
        if file is not None:
            read[split] = read_series(file, reading, channels=read["train"].channels)
            train = read["train"]
            check_alike(read[split], train.channels, train.rate, train.unit, str(file))
            if (read[split].times is None) != (read["train"].times is None):
                raise DataError(f"{file}: one of it and {settings.train_file} has uneven times, the other has not")
    notes += dict.fromkeys(series_of_split.said for series_of_split in read.values() if series_of_split.said)
    sources: list[dict[str, Json]] = [
        {**series_of_split.source, "split": split} for split, series_of_split in read.items()
    ]
    numbers = settings.task == SERIES_REGRESSION
    names = () if numbers else read["train"].label_names or in_order(read["train"].labels)
    if names and len(set(read["train"].labels)) < 2:
        raise DataError(
            f"{settings.train_file}: every training series has the label {read['train'].labels[0]!r}; at least two are "
            "needed"
        )
    for split in read.keys() - {"train"} if names else ():
        read[split] = replace(read[split], labels=as_trained(read[split].labels, names))
        _check_known(read[split], names, split)
    for split, fraction in (("test", settings.test_fraction), ("validation", settings.validation_fraction)):
        if split not in read and fraction:
            read["train"], read[split] = _hold_out(settings, read["train"], fraction, split)
            notes.append(f"{split.capitalize()}: {len(read[split].values)} series set apart from the training data.")
    if "validation" not in read:
        notes.append("Validation: no series are set apart; the last weights are taken.")
    notes += notes_on_repeats(
        {split: [values.tobytes() for values in series_of_split.values] for split, series_of_split in read.items()},
        "series",
    )
    if settings.metric == "auroc" and len(names) != 2:
        raise DataError(f"--metric auroc: needs two classes, {settings.train_file} has {len(names) or 'numbers'}")
    scale = _scale(read["train"])
    notes += [note for split in ("validation", "test") if split in read and (note := read[split].without_values())]
    means, deviations = (cast(list[float], scale[name]) for name in ("channel_means", "channel_deviations"))
    for series in read.values():
        check_float32(series, means, deviations, str(series.source["name"]))
    if read["train"].times is not None:
        scale |= {"flagged_channels": None, "gap_unit": _usual_gap(read["train"].times)}
        notes.append(f"Times are uneven; a usual gap is {scale['gap_unit']:.4g}.")
    elif scale["flagged_channels"]:
        named = [read["train"].channels[n] for n in cast(list[int], scale["flagged_channels"])]
        notes.append(
            f"Values are missing in {', '.join(named[:30])}; the model reads a flag for each of these channels."
        )
    number = {label: index for index, label in enumerate(names)}
    if numbers:
        targets = labels_as_numbers(read["train"])
        spread = deviation_of(targets) or 1.0
        scale |= {"problem_type": "regression", "label_mean": float(targets.mean()), "label_deviation": spread}

    def examples(series: LabelledSeries) -> Examples:
        gaps = None if series.times is None else [gaps_of(times) for times in series.times]
        weights = weights_of(series.weights, str(series.source["name"]))
        groups = numbers_of_groups(series.groups)
        if numbers:
            return Examples(
                series.values, labels_as_numbers(series), unit=spread, gaps=gaps, weights=weights, groups=groups
            )
        classes = np.array([number[label] for label in series.labels], dtype=np.int64)
        metric = "auroc" if settings.metric == "auroc" else None
        return Examples(series.values, classes, metric=metric, gaps=gaps, weights=weights, groups=groups)

    how = reading._asdict()
    how |= how.pop("dialect")._asdict()
    del how["data_root"]  # a folder of this machine
    return TaskData(
        name=settings.task,
        model_inputs={
            **scale, "pad_token_id": None, "unk_token_id": None,
            "label_type": None if numbers else read["train"].label_type,
            "series": {
                "channels": list(read["train"].channels), **how, "missing": list(reading.missing),
                "rate": read["train"].rate, "unit": read["train"].unit,
            },
        },
        train=examples(read["train"]),
        evaluation={split: examples(read[split]) for split in ("validation", "test") if split in read},
        sources=sources, label_names=names or ("number",), notes=notes,
    )  # fmt: skip


def labels_as_numbers(series: LabelledSeries) -> np.ndarray:
    """(series,), float64.

    Raises:
        DataError: a label is no finite number, or larger than `LARGEST`; its place is named.
    """
    numbers = np.empty(len(series.labels))
    for row, (label, place) in enumerate(zip(series.labels, series.places, strict=True)):
        try:
            numbers[row] = float(label)
        except ValueError:
            numbers[row] = np.nan
        if not np.isfinite(numbers[row]):
            raise DataError(f"{series.source['name']}: {place}: the label must be a finite number, got {label!r}")
        if abs(numbers[row]) > LARGEST:
            raise DataError(
                f"{series.source['name']}: {place}: the label {label} is too large; numbers up to {LARGEST:g} are read"
            )
    return numbers


def _scale(train: LabelledSeries) -> dict[str, Json]:
    """Fields of the model's configuration: mean and deviation of each channel over the training split, and the channels
    in which values are missing there."""
    whole = np.concatenate(train.values)
    missing = np.isnan(whole)
    if missing.all(0).any():
        raise DataError(f"channel {train.channels[int(missing.all(0).argmax())]!r}: all values are missing")
    means, deviations = scale_of(whole)
    return {
        "input_size": whole.shape[1],
        "channel_means": means.tolist(),
        "channel_deviations": deviations.tolist(),
        "flagged_channels": np.flatnonzero(missing.any(0)).tolist(),
    }


def gaps_of(times: np.ndarray) -> np.ndarray:
    """(time,), float32: the time since the step before, 0 at the first."""
    return np.diff(times, prepend=times[:1]).astype(np.float32)


def _usual_gap(times: list[np.ndarray]) -> float:
    """The median of all gaps of training, which the model reads times in units of; 1 where there is none."""
    gaps = np.concatenate([np.diff(steps) for steps in times])
    return float(np.median(gaps)) if len(gaps) else 1.0


def _hold_out(
    settings: SeriesSettings, series: LabelledSeries, fraction: float, split: str
) -> tuple[LabelledSeries, LabelledSeries]:
    """All series but a fraction, by class, and those; the last to begin, or whole groups, where that is asked for."""
    place = str(series.source["name"])
    if settings.split == "time":
        if series.starts is None:
            raise DataError(f"{place}: --split time is for tables with a row a time; leave it out")
        rest, held_out = of_times(series.starts, fraction, place)
    elif series.groups is not None:
        rest, held_out = of_groups(series.groups, fraction, settings.split_seed, place)
    else:
        from sklearn.model_selection import train_test_split

        try:
            rest, held_out = train_test_split(
                np.arange(len(series.values)), test_size=fraction, random_state=settings.split_seed,
                stratify=None if settings.task == SERIES_REGRESSION else series.labels,
            )  # fmt: skip
        except ValueError as error:
            raise DataError(f"{settings.task}: no {split} split can be set apart: {error}") from error
    return _rows(series, rest), _rows(series, held_out)


def _rows(series: LabelledSeries, rows: np.ndarray) -> LabelledSeries:
    def chosen(of: list[Own]) -> list[Own]:
        return [of[row] for row in rows]

    return replace(
        series, values=chosen(series.values), labels=chosen(series.labels), places=chosen(series.places),
        times=None if series.times is None else chosen(series.times),
        names=None if series.names is None else chosen(series.names),
        rows=None if series.rows is None else chosen(series.rows),
        groups=None if series.groups is None else chosen(series.groups),
        weights=None if series.weights is None else series.weights[rows],
        starts=None if series.starts is None else series.starts[rows],
    )  # fmt: skip


def _check_known(series: LabelledSeries, names: tuple[str, ...], split: str) -> None:
    for label, place in zip(series.labels, series.places, strict=True):
        if label not in names:
            raise DataError(
                f"{series.source['name']}: {place}: the label {label!r} is in no training series; there are "
                f"{', '.join(names[:30])}"
            )
