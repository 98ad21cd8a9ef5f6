"""standing.json: how a finished run compares with the plain baselines of its task, and what to do next."""

from typing import ClassVar, Literal

from pydantic import Field

from gatedrnn.training.result import Record


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
        lines = [self._verdict()] if self.plain else []
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
