"""The records under results/ for the slides: how they are read, formatted and put on charts."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import yaml
from deck import Chart, Kind, Mark, Words, joined, same
from pydantic import TypeAdapter

from benchmarks.record import FILE, BenchRecord
from benchmarks.sizes import Shape
from gatedrnn.pages import plural, signed
from gatedrnn.records import Environment, Machine
from gatedrnn.study.results import ComparisonResults, PlainScores, ProbeResults, Source, TaskAnswers
from gatedrnn.study.statistics import Estimate, Sample, Table
from gatedrnn.study.verdict import difference_in_words, with_interval
from gatedrnn.tasks.probes.suite import scaled
from gatedrnn.training.outcomes import OUTCOMES, read_outcomes
from gatedrnn.training.result import Record, RunResult, read_record
from gatedrnn.training.settings import RunSettings

RESULTS = Path(__file__).parents[1] / "results"
PROBES = ("probes/default", "probes/other-seeds", "probes/more-seeds")
"""One suite, three times with other seeds."""
LAYERS, PEERS = ("bench/layers", "bench/layers-intel"), "bench/peers"
"""Layers on AMD's processor and on Intel's, and on AMD's another library's."""
DROP_IN = "bench/drop-in", "bench/drop-in-intel"
"""Layers that stand in for torch's, on both."""
TRAINING = "forward+backward"
"""The mode of `python -m benchmarks`."""
PLAIN = {
    "TF-IDF bigrams + LinearSVC": same("TF-IDF + LinearSVC"),
    "MiniRocket + ridge": same("MiniRocket"),
    "gradient boosting on lags": Words("boosted trees", "부스팅 트리"),
    "gradient boosting on summary features": Words("boosted trees", "부스팅 트리"),
    "seasonal naive of 24": Words("seasonal naive of 24", "계절 나이브(24)"),
}
"""Baselines with another name here than in the records."""


class KeptRun(NamedTuple):
    """A run of `gatedrnn train`."""

    result: RunResult
    settings: RunSettings
    tokens: dict[str, str]
    """The number of tokens by split."""
    machine: Machine


class Folds(Record):
    """Scores of a contender over the folds of a cross-validation."""

    mean: float
    low: float
    high: float
    folds: list[float]


class CrossValidation(Record):
    """folds.json, as tools/cross_validate.py writes it."""

    scores: dict[str, Folds]
    """The scores by contender."""


class Probed(NamedTuple):
    """A probe with all seeds that are kept."""

    suites: list[TaskAnswers]
    machine: Words

    @property
    def first(self) -> TaskAnswers:
        """The suite that has sizes and speeds."""
        return self.suites[0]

    @property
    def longest(self) -> int:
        """The greatest length that is tested."""
        return max(self.first.labels)

    def at(self, cell: str, length: int) -> list[float]:
        """The scaled accuracy of every seed."""
        return [
            scaled(by_length[length], task.chance)
            for task in self.suites
            for by_length in task.cells[cell].accuracy.values()
        ]

    def average(self, cell: str, length: int) -> str:
        """The mean of all seeds."""
        return f"{mean(self.at(cell, length)):.2f}"

    def exact(self, cell: str) -> Words:
        """The share of seeds that make no mistake at the greatest length."""
        return share([value == 1 for value in self.at(cell, self.longest)])

    @property
    def tested(self) -> Words:
        """The sequences of the greatest length on which each seed is tested."""
        rows = self.first.rows[self.longest]
        return Words(f"{plural(rows, 'sequence')} of {self.longest:,} steps", f"{self.longest:,}스텝 시퀀스 {rows}개")

    def chart(self, taken: str) -> Chart:
        """Every seed at the greatest length."""
        title = Words(
            f"scaled accuracy, {self.tested.en} a seed; seeds without a mistake",
            f"정규화 정확도, 시드마다 {self.tested.ko}, 오류가 없는 시드 수",
        )
        return Chart(title, [
            Mark(same(f"`{cell}`"), self.exact(cell), None, None, self.at(cell, self.longest), kind(cell == taken))
            for cell in self.first.cells
        ])  # fmt: skip

    def settings(self, lengths: Words) -> Words:
        """The settings in one line, with lengths in words."""
        return joined(
            lengths,
            seeds(len(self.at(next(iter(self.first.cells)), self.longest))),
            Words(
                f"cores matched to {self.first.core:,} parameters", f"순환부 파라미터를 {self.first.core:,}개로 맞춤"
            ),
            Words("scaled accuracy: 0 is chance, 1 is perfect", "정규화 정확도: 0은 무작위 수준, 1은 오류 없음"),
            self.machine,
        )


def trained(steps: int) -> Words:
    return Words(f"trained at up to {steps} steps", f"{steps}스텝까지 학습")


def comparison(folder: str) -> ComparisonResults:
    return read_record(RESULTS / folder / ComparisonResults.FILE, ComparisonResults)


def bench(folder: str) -> BenchRecord:
    return TypeAdapter(BenchRecord).validate_json((RESULTS / folder / FILE).read_bytes())


def probes(folder: str) -> ProbeResults:
    return read_record(RESULTS / folder / ProbeResults.FILE, ProbeResults)


def probed(task: str, folders: Sequence[str] = PROBES) -> Probed:
    records = [probes(folder) for folder in folders]
    where = machine(records[0].measured.environment, records[0].settings.threads)
    return Probed([record.tasks[task] for record in records], where)


def folds(folder: str) -> dict[str, Folds]:
    """The scores of a folder by contender."""
    return read_record(RESULTS / folder / "folds.json", CrossValidation).scores


def kept_run(folder: str) -> KeptRun:
    path = RESULTS / folder
    sources = TypeAdapter(list[Source]).validate_json((path / "data.json").read_bytes())
    return KeptRun(
        read_record(path / "result.json", RunResult),
        RunSettings.from_flat(yaml.safe_load((path / "settings.yaml").read_text(encoding="utf-8"))),
        {source.split or "": str(source.rows).removesuffix(" tokens") for source in sources},
        TypeAdapter(Environment).validate_json((path / "environment.json").read_bytes())["environment"],
    )


def articles(folder: str) -> int:
    """The number of articles in the test text of a kept run."""
    return len(read_outcomes(RESULTS / folder / OUTCOMES)["test"].values)


def perplexity_over(folder: str, other: str) -> Estimate:
    """A run's test perplexity over another's, less one, with an interval over other texts of the kind."""
    outcomes = [read_outcomes(RESULTS / each / OUTCOMES)["test"] for each in (folder, other)]
    samples = [Sample(outcome.values[None], outcome.counts, "perplexity", fixed=True) for outcome in outcomes]
    return Table(samples).pairs()[0].difference


def ratio(record: BenchRecord, section: str, mode: str, numerator: str, denominator: str, shape: Shape) -> float:
    """The ratio of the first's time to the second's."""
    wanted = (section, mode, numerator, denominator, shape)
    return next(q.ratio for q in record.ratios if wanted == (q.section, q.mode, q.numerator, q.denominator, q.shape))


def on_both(section: str, numerator: str, denominator: str, shape: Shape) -> list[float]:
    """A ratio of forward and backward on the processors that layers were measured on."""
    return [ratio(bench(name), section, TRAINING, numerator, denominator, shape) for name in LAYERS]


def plain_scores(results: ComparisonResults, name: str) -> PlainScores:
    return next(scores for scores in results.baseline.plain if scores.name == name)


def training_rows(results: ComparisonResults) -> str:
    """The number of training rows without those set apart for validation."""
    rows = next(int(source.rows) for source in results.data.sources if source.split == "train")
    return f"{rows - results.data.examples['validation']:,}"


def difference(results: ComparisonResults, name: str, other: str) -> str:
    return difference_in_words(results.pair(name, other).difference, results)


def times(value: float) -> str:
    """A ratio, in two digits."""
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


def between(ratios: Iterable[float]) -> tuple[str, str]:
    """The smallest and the largest."""
    ordered = sorted(ratios)
    return times(ordered[0]), times(ordered[-1])


def span(ratios: Iterable[float]) -> Words:
    """The smallest and the largest, once where both have the same digits."""
    low, high = between(ratios)
    return same(low) if low == high else Words(f"{low} to {high}", f"{low}~{high}")


def rounded(speed: float) -> str:
    """Tokens a second, to the hundred."""
    return f"{round(speed, -2):,.0f}"


def share(each: Sequence[bool]) -> Words:
    return Words(f"{sum(each)} of {len(each)}", f"{len(each)}개 중 {sum(each)}개")


def seeds(count: int) -> Words:
    return Words(plural(count, "seed"), f"시드 {count}개")


def machine(environment: Machine, threads: int) -> Words:
    name, cores = environment["processor"].replace("(R)", "").removesuffix(" Processor"), environment["cores"] or 0
    return Words(
        f"{name}, {plural(cores, 'core')}, {plural(threads, 'thread')}", f"{name}, 코어 {cores}개, 스레드 {threads}개"
    )


def plain_name(name: str) -> Words:
    return PLAIN.get(name, same(name))


def kind(taken: bool) -> Kind:
    return "taken" if taken else "cell"


def bar(label: Words, value: float, shown: str, taken: bool = False) -> Mark:
    return Mark(label, same(shown), value, kind=kind(taken))


def estimated(label: Words, estimate: Estimate, by_seed: Sequence[float] = (), of: Kind = "cell") -> Mark:
    """A score with its interval."""
    interval = None if estimate.low is None or estimate.high is None else (estimate.low, estimate.high)
    return Mark(label, same(with_interval(estimate)), estimate.mean, interval, by_seed, of)


def contender(results: ComparisonResults, name: str, label: Words | None = None, taken: bool = False) -> Mark:
    """The test score of a cell, with each seed."""
    row = results.contender(name)
    by_seed = [run.score("test", results.metric.name) for run in row.runs]
    return estimated(label or same(f"`{row.cell}`"), row.scores["test"], by_seed, kind(taken))


def plain(results: ComparisonResults, name: str, label: Words | None = None) -> Mark:
    """The test score of a plain baseline."""
    return estimated(label or plain_name(name), plain_scores(results, name).scores["test"], of="plain")


def folded(scores: Folds, label: Words, of: Kind) -> Mark:
    """A score over folds, with each of them."""
    return estimated(label, Estimate(scores.mean, scores.low, scores.high, len(scores.folds)), scores.folds, of)


def percentage(label: Words, part: Estimate, taken: bool) -> Mark:
    assert part.low is not None and part.high is not None
    mean, low, high = 100 * part.mean, 100 * part.low, 100 * part.high
    shown = f"{signed(mean, '.1f')} [{signed(low, '.1f')}, {signed(high, '.1f')}]"
    return Mark(label, same(shown), mean, (low, high), kind=kind(taken))
