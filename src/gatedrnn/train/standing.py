"""standing.json: how a finished run compares with the plain baselines of its task, and what to do next."""

from typing import ClassVar, Literal

from pydantic import Field

from gatedrnn.train.result import Record


class Plain(Record):
    """One plain baseline on the same test split."""

    name: str
    score: float
    seconds: float
    """Of fitting; of a method that is fitted to each series anew, of fitting and forecasting."""
    against: Literal["better", "worse", "open"]
    """It beside this run: the 95 % interval of their difference over test examples, or whether it leaves out zero."""


class Standing(Record):
    """standing.json of a run's folder."""

    VERSION: ClassVar[int] = 1

    version: int = Field(VERSION, alias="schema")
    metric: str
    higher_is_better: bool
    score: float
    """Of this run on the test split."""
    plain: list[Plain]
    left_out: list[str]
    """Baselines that did not begin in their share of the run's time, or cannot here; each with the reason."""
    advice: list[str]
    """What would help, by what was measured."""

    def sentences(self) -> list[str]:
        """Beside the baselines, whose scores follow; and what to do next."""
        found = [self._verdict()] if self.plain else []
        if self.plain:
            rows = (f"{one.name} {_shown(one.score)} ({one.seconds:.1f} s)" for one in self._ranked())
            found.append(f"Plain baselines on the same test split, {self.metric}: {', '.join(rows)}.")
        if self.left_out:
            found.append(f"Left out: {', '.join(self.left_out)}.")
        return [*found, *self.advice]

    def _ranked(self) -> list[Plain]:
        return sorted(self.plain, key=lambda one: one.score, reverse=self.higher_is_better)

    def _verdict(self) -> str:
        own, ranked = f"{self.metric} {_shown(self.score)}", self._ranked()
        better = [one for one in ranked if one.against == "better"]
        if better:
            first = better[0]
            others = f"; so {'does' if len(better) == 2 else 'do'} {', '.join(one.name for one in better[1:])}"
            return (
                f"A plain method does better here: {first.name} has test {self.metric} {_shown(first.score)}, this run "
                f"{_shown(self.score)}{others if len(better) > 1 else ''}."
            )
        beside = [one for one in ranked if one.against == "open"]
        if beside:
            return (
                f"Test {own} is not shown to be better than {beside[0].name}, {_shown(beside[0].score)}: the simpler "
                "method may do."
            )
        return f"Test {own} is better than {ranked[0].name}, {_shown(ranked[0].score)}, the best of the plain methods."


def _shown(score: float) -> str:
    return f"{score:.4f}" if abs(score) < 10 else f"{score:.1f}"
