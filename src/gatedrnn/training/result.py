"""The records of a run: its scores, what was measured, and its comparison with plain baselines."""

import gzip
import json
import math
import re
import zlib
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)  # fmt: skip
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from gatedrnn.errors import Damaged
from gatedrnn.pages import plural
from gatedrnn.records import Json, read_json, write_whole
from gatedrnn.unpacking import BoundedGzip


class Record(BaseModel):
    """A file that a command writes and a report reads, or a part of one; unknown keys are ignored."""

    model_config = ConfigDict(
        frozen=True, populate_by_name=True, serialize_by_alias=True,
        ser_json_inf_nan="constants",
    )  # fmt: skip

    def text(self) -> str:
        """The content of its file."""
        return json.dumps(_in_words(self.model_dump(mode="json")), indent=1, ensure_ascii=False, allow_nan=False)

    def write(self, path: Path) -> None:
        """Write its file, so that it is whole or as it was; compressed if the name ends in .gz.

        Raises:
            OSError: it names the file.
        """
        text = self.text()
        write_whole(path, gzip.compress(text.encode(), mtime=0) if path.suffix == ".gz" else text)


def _in_words(value: Json) -> Json:
    """Write "Infinity" and "NaN" for what JSON has no numbers for: the loss of a state that grew beyond all of them."""
    if isinstance(value, dict):
        return {name: _in_words(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_in_words(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


AnyRecord = TypeVar("AnyRecord", bound=Record)


def read_record(path: Path, kind: type[AnyRecord]) -> AnyRecord:
    """A record from its file.

    Raises:
        Damaged: the file is missing, cannot be read, or holds something else.
    """
    held: Json = None
    try:
        held = json.loads(BoundedGzip(path).read()) if path.suffix == ".gz" else read_json(path)
        return kind.model_validate(held)
    except FileNotFoundError as error:
        raise Damaged(f"{path}: is missing") from error
    except ValidationError as error:
        version = kind.model_fields.get("version")
        if version and isinstance(held, dict) and (written := held.get("schema")) not in (None, version.default):
            raise Damaged(
                f"{path}: was written by another version of gatedrnn (schema {written}, here {version.default}); the "
                "command that made it writes it anew"
            ) from error
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "its content"
        raise Damaged(f"{path}: is no {kind.__name__} ({where}: {first['msg']})") from error
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise Damaged(f"{path}: is damaged ({error})") from error


class Scores(Record):
    """Scores of a model on one split; None where the task has no such score."""

    loss: float
    """Nats per label; the mean squared error of a regression, in units of the labels' variance where it is known."""
    accuracy: float | None = None
    balanced_accuracy: float | None = None
    """The mean over classes of the share of their labels that is right."""
    micro_f1: float | None = None
    """F1 of several labels a row, counted over all labels of all rows together; the accuracy is then the share of
    rows all of whose labels are right."""
    macro_f1: float | None = None
    """The mean of F1 over classes, or over labels."""
    auroc: float | None = None
    """The area under the ROC curve; of more than two classes, or of several labels a row, the mean over these."""
    average_precision: float | None = None
    """The mean over true ones of the precision at their output, likewise."""
    log_loss: float | None = None
    """Nats per label, where that is what the best weights are chosen by."""
    r2: float | None = None
    """The share of the variance of numbers that is explained."""
    spearman: float | None = None
    """The correlation of the ranks of numbers."""
    perplexity: float | None = None
    bits_per_byte: float | None = None
    tokens: int | None = None
    """Predicted tokens of a text."""
    mase: float | None = None
    """Mean absolute scaled error of the median: in units of the seasonal naive forecast's error on each series' past
    (Hyndman and Koehler 2006)."""
    mae: float | None = None
    """Mean absolute error in the units of the labels; of forecasts, of the median."""
    rmse: float | None = None
    """The root of the mean squared error of numbers, in the units of the labels."""
    scaled_mae: float | None = None
    """Mean absolute error in units of the deviation of training labels, or of each series' training values;
    `scaled_mse` has the mean of squares."""
    scaled_mse: float | None = None
    smape: float | None = None
    """200 |y - f| / (|y| + |f|) in the mean, from 0 to 200, as the M4 competition has it."""
    weighted_quantile_loss: float | None = None
    """Twice the pinball loss over the absolute values, both summed over all labels; the mean over quantiles.
    None where all values are 0."""
    coverage: float | None = None
    """Share of values between the lowest and the highest quantile."""


Score: TypeAlias = Literal["accuracy", "correlation", "perplexity", "error"]
"""A share; what is 1 at best and may be below 0; the exponential of a mean loss; a mean error."""


class Metric(Record):
    """The score that is reported first, and that contenders are compared by."""

    name: Literal[
        "accuracy", "balanced_accuracy", "micro_f1", "macro_f1", "auroc", "average_precision", "perplexity", "log_loss",
        "mase", "scaled_mae", "r2", "spearman",
    ]  # fmt: skip
    higher_is_better: bool

    @property
    def score(self) -> Score:
        """The form of the score that statistics are computed for."""
        if self.name == "perplexity":
            return "perplexity"
        if self.name in ("r2", "spearman"):
            return "correlation"
        return "accuracy" if self.higher_is_better else "error"

    @property
    def sign(self) -> int:
        """The sign of a difference that is an improvement."""
        return 1 if self.higher_is_better else -1

    def rank(self, scores: Scores) -> tuple[float, float]:
        """The rank of scores, the largest being the best: the score, then the loss."""
        return getattr(scores, self.name) * self.sign, -scores.loss


_SCORE = re.compile(rf"(\w+?)_({'|'.join(Scores.model_fields)})")
"""The pattern of the names of scores in files: `test_accuracy`, `validation_bits_per_byte`, `test_4096_loss`."""


class RunScores(Record):
    """Scores of one run: by split in Python, and flat in files (`test_accuracy`)."""

    seed: int
    steps: int
    best_step: int
    """The step whose weights are tested: that of the best validation score, or the last one."""
    scores: dict[str, Scores]
    """The scores by split: `validation`, `test`, and `test_LENGTH` for tests at other lengths."""

    def score(self, split: str, metric: str) -> float:
        """One score, by the names of its split and its metric."""
        value: float = getattr(self.scores[split], metric)
        return value

    @model_validator(mode="before")
    @classmethod
    def _by_split(cls, given: Any) -> Any:
        if not isinstance(given, dict) or "scores" in given:
            return given
        scores: dict[str, dict[str, Any]] = {}
        for name, value in given.items():
            if match := _SCORE.fullmatch(name):
                scores.setdefault(match[1], {})[match[2]] = value
        return {name: value for name, value in given.items() if not _SCORE.fullmatch(name)} | {"scores": scores}

    @model_serializer(mode="wrap")
    def _flat(self, inner: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written = {name: value for name, value in inner(self).items() if value is not None}
        scores = written.pop("scores")
        flat = {
            f"{split}_{name}": number
            for split, scores_of_split in scores.items()
            for name, number in scores_of_split.items()
            if number is not None
        }
        return {**written, **flat}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        reference = handler(core)
        schema = handler.resolve_ref_schema(reference)
        schema["properties"].pop("scores")
        schema["required"].remove("scores")
        schema["patternProperties"] = {f"^{_SCORE.pattern}$": {"type": "number"}}
        return reference


Measure: TypeAlias = Literal["log loss", "mean squared error", "MASE"]
"""The measure of errors; squares in units of the labels' variance."""


PLAIN_PART = "plain-part"
"""The name of a model's plain part as a baseline of `gatedrnn predict`."""


class PlainPart(Record):
    """A model beside its plain part alone, on a part of the data that neither was fitted to."""

    name: str
    """The name of the plain part."""
    split: str
    metric: Measure
    score: float
    """The error of the whole model."""
    alone: float
    """The error of the plain part alone."""
    low: float
    """The lower end of the 95 % interval of the difference, score less alone, over examples; infinite where they are
    too few."""
    high: float
    examples: int
    unit: str
    """The name of an example."""

    @property
    def lowers(self) -> bool:
        """Whether the network lowers the error of the plain part, beyond chance."""
        return self.high < 0

    def sentence(self) -> str:
        """Whether the plain part would do."""
        scores = f"{self.split} {self.metric} {self.alone:.4f}, with the gated network {self.score:.4f}"
        of = plural(self.examples, self.unit)
        if self.low == self.high == 0:
            said = f"The network has no part in the answer, which is that of {self.name} alone"
            return f"{said}: {self.split} {self.metric} {self.alone:.4f}."
        if not math.isfinite(self.low):
            return f"Whether the network does better than its plain part ({self.name}), {of} cannot tell: {scores}."
        interval = f"95 % interval of the difference {self.low:+.4f} to {self.high:+.4f}, {of}"
        if self.lowers:
            return f"The gated network does better than its plain part alone, {self.name}: {scores} ({interval})."
        name = self.name[0].upper() + self.name[1:]
        use = f"To predict with it: gatedrnn predict RUN FILE --baseline {PLAIN_PART} --output NAME"
        return f"No gain over the plain method is shown: use it. {name} alone: {scores} ({interval}). {use}."


class RunMeasured(Record):
    """The measurements that differ between two equal runs."""

    training_seconds: float
    """The seconds of training steps alone, the first of each process left out."""
    waiting_share: float | None = None
    """Part of it that steps waited for their batches."""
    tokens_per_second: float | None
    """The tokens per second of training; None where the run was too short to measure it."""
    threads: int
    processes: int = 1
    """The number of processes that shared it at its end."""
    processor: str | None = None
    """The processor of the machine that ended it; None in a file from before it was recorded."""
    commit: str | None = None
    """The commit of the package's checkout there, with a plus where its sources differ from it; None where it was
    installed from a wheel, and in a file from before it was recorded."""


class RunResult(RunScores):
    """result.json of a run's folder."""

    cell: str
    """The cell as on the command line, with its options; one for each layer, joined by commas, in a mixed stack."""
    hidden_size: int
    confusion: dict[str, list[list[int]]] | None = None
    """The confusion matrix by split: rows are true classes, columns predicted ones."""
    each_label: dict[str, list[list[list[int]]]] | None = None
    """The tables by split where a row has several labels: for each label, rows without it and with it, by whether it
    was predicted of them."""
    metric: str | None = None
    """The score that the best weights were chosen by; None in a file from before it was recorded."""
    weights: Literal["best", "last"] = "best"
    """Whether the weights are the best on validation or the last, as `weights` of the settings asks, and wherever a
    validation part is lacking or too small to choose by."""
    plain_part: PlainPart | None = None
    """The model beside its plain part; None where it has none, or nothing was held back; and in a file from before it
    was recorded."""
    measured: RunMeasured


class Plain(Record):
    """One plain baseline on the same test split."""

    name: str
    score: float
    seconds: float
    """The seconds of fitting; of a method that is fitted to each series anew, of fitting and forecasting."""
    against: Literal["better", "worse", "open"]
    """The method beside this run: the 95 % interval of their difference over test examples, or whether it leaves out
    zero."""


class Standing(Record):
    """standing.json of a run's folder."""

    VERSION: ClassVar[int] = 1

    version: int = Field(VERSION, alias="schema")
    metric: str
    higher_is_better: bool
    score: float
    """The score of this run on the test split."""
    plain: list[Plain]
    left_out: list[str]
    """Baselines that did not begin in their share of the run's time, or cannot here; each with the reason."""
    advice: list[str]
    """Sentences on what would help, by what was measured."""

    def sentences(self, *, scores: bool = True) -> list[str]:
        """Sentences on the run beside the baselines, and on what to do next.

        Args:
            scores: those of the baselines are among them; leave them out where a table has them.
        """
        lines = [self._verdict(), *self._command()] if self.plain else []
        if self.plain and scores:
            rows = (f"{plain.name} {_shown(plain.score)} ({plain.seconds:.1f} s)" for plain in self.ranked())
            lines.append(f"Plain baselines on the same test split, {self._metric}: {', '.join(rows)}.")
        if self.left_out:
            lines.append(f"Left out: {', '.join(self.left_out)}.")
        return [*lines, *self.advice]

    def rows(self) -> list[dict[str, str]]:
        """One row of text for this run and for each plain method, the best first."""
        words = {"better": "better", "worse": "worse", "open": "cannot tell"}
        sortable = [(plain.score, plain.name, f"{plain.seconds:.1f}", words[plain.against]) for plain in self.plain]
        sortable.append((self.score, "this run", "–", "–"))
        return [
            {"method": name, f"test {self._metric}": _shown(score), "seconds": seconds, "beside this run": word}
            for score, name, seconds, word in sorted(sortable, key=lambda row: row[0], reverse=self.higher_is_better)
        ]

    def ranked(self) -> list[Plain]:
        """The baselines, the best first."""
        return sorted(self.plain, key=lambda plain: plain.score, reverse=self.higher_is_better)

    def _command(self) -> list[str]:
        """The command that forecasts with the best of the baselines that are not worse than the run."""
        best = next((plain.name for plain in self.ranked() if plain.against != "worse"), None)
        if best is None or not self.of_forecasts:
            return []
        return [f"To forecast with it: gatedrnn predict RUN FILE --baseline '{best}' --output NAME."]

    @property
    def of_forecasts(self) -> bool:
        """Whether the task is one of forecasts, whose baselines `gatedrnn predict` has."""
        return self.metric == "mase"

    @property
    def _metric(self) -> str:
        """The name of the metric in words."""
        return self.metric.replace("_", " ")

    def _verdict(self) -> str:
        mine, ranked = f"{self._metric} {_shown(self.score)}", self.ranked()
        better = [plain for plain in ranked if plain.against == "better"]
        if better:
            first = better[0]
            others = f"; so {'does' if len(better) == 2 else 'do'} {', '.join(plain.name for plain in better[1:])}"
            return (
                f"A plain method does better here: {first.name} has test {self._metric} {_shown(first.score)}, this "
                f"run {_shown(self.score)}{others if len(better) > 1 else ''}."
            )
        beside = [plain for plain in ranked if plain.against == "open"]
        if beside:
            return (
                f"Test {mine} is not shown to be better than {beside[0].name}, {_shown(beside[0].score)}: the simpler "
                "method may do."
            )
        best = f"{ranked[0].name}, {_shown(ranked[0].score)}, the best of the plain methods that ran"
        return f"Test {mine} is better than {best}."


def _shown(score: float) -> str:
    return f"{score:.4f}" if abs(score) < 10 else f"{score:.1f}"
