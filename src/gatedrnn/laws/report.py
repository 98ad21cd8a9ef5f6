"""The verdicts of the laws on a subject: a record for each, and the report of all."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from itertools import zip_longest
from math import isfinite
from textwrap import wrap
from typing import Literal, TypeAlias

from gatedrnn.laws.errors import LawsBroken
from gatedrnn.laws.laws import CaseSizes

Verdict: TypeAlias = Literal["holds", "fails", "noted", "not applicable", "stopped"]
WORDS: dict[Verdict, str] = {
    "holds": "hold", "fails": "FAIL", "stopped": "STOPPED", "noted": "noted", "not applicable": "not applicable",
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """The verdict on one law."""

    law: str
    says: str
    """The law in a sentence."""
    verdict: Verdict
    error: float = 0.0
    """The largest error of the smallest case that fails, or of all where the law holds; infinite where it raises."""
    allowed: float = 0.0
    reason: str = ""
    """The tensor that differs; or why the law cannot be asked; or what is declared of an unsupported use."""
    width: int | None = None
    sizes: CaseSizes | None = None
    """The smallest case that fails."""
    script: str = ""
    """A program that shows the failure with torch and the subject's package alone; empty where we did not make it."""

    @property
    def broken(self) -> bool:
        return self.verdict in ("fails", "stopped")

    @property
    def case(self) -> str:
        """The smallest case in words.

        Example:
            >>> Outcome("causality", "", "fails", sizes=CaseSizes(1, 2, 1, 1), width=4).case
            'width 4, batch 1, 2 steps, cut after 1'
        """
        if self.sizes is None:
            return ""
        sizes = self.sizes
        words = [f"width {self.width}"] if self.width is not None else []
        words += [f"batch {sizes.batch}", f"{sizes.steps} step{'s' * (sizes.steps != 1)}"]
        if "padd" in self.law or "unequal" in self.law or "packed" in self.law:
            return ", ".join([*words, f"{sizes.pad} of padding"])
        return ", ".join([*words, f"cut after {sizes.cut}"] if sizes.steps > 1 else words)

    @property
    def finding(self) -> str:
        """The smallest case and the reason, where there is one."""
        return "; ".join(part for part in (self.case, self.reason) if part)

    def raise_if_broken(self) -> None:
        """Raise where the law does not hold.

        Raises:
            LawsBroken: with the sentence of the law, the smallest case, and the script that shows it.
        """
        if self.broken:
            where = f" ({self.case})" if self.case else ""
            script = f"\n\n{self.script}" if self.script else ""
            raise LawsBroken(f"{self.law}: {self.says} Not here{where}: {self.reason}.{script}")


@dataclass(frozen=True)
class Report:
    """The verdicts on a subject; prints as a table."""

    subject: str
    entry: str
    """How it was run."""
    dtype: str
    """float64 where all of it computes in float64, else float32."""
    outcomes: tuple[Outcome, ...]

    @property
    def failures(self) -> list[Outcome]:
        """The laws that fail, or took longer than their time."""
        return [outcome for outcome in self.outcomes if outcome.broken]

    @property
    def not_applicable(self) -> dict[str, list[str]]:
        """The names of the laws that cannot be asked, by the reason."""
        laws: dict[str, list[str]] = {}
        for one in self.outcomes:
            if one.verdict == "not applicable":
                laws.setdefault(one.reason, []).append(one.law)
        return laws

    def raise_if_failed(self) -> None:
        """Raise where a law fails.

        Raises:
            LawsBroken: with every law that fails and its smallest case.
        """
        if self.failures:
            lines = [f"{one.law}: {one.reason} ({one.case})" for one in self.failures]
            raise LawsBroken(f"{self.subject} breaks {len(lines)} laws:\n" + "\n".join(lines))

    def verdict(self) -> str:
        """Summarise all laws in a sentence."""
        counts = Counter(outcome.verdict for outcome in self.outcomes)
        words = ", ".join(f"{counts[verdict]} {word}" for verdict, word in WORDS.items() if counts[verdict])
        return f"{self.subject}: {words}"

    def as_record(self) -> dict[str, object]:
        """Return what a JSON file keeps: errors of what holds, reasons of what cannot be asked, cases of what fails."""
        return {
            "subject": self.subject, "entry": self.entry, "dtype": self.dtype, "passed": not self.failures,
            "holds": {one.law: [one.error, one.allowed] for one in self.outcomes if one.verdict == "holds"},
            "not applicable": self.not_applicable,
            "others": [
                {
                    "law": one.law, "verdict": one.verdict, "error": one.error if isfinite(one.error) else None,
                    "allowed": one.allowed, "reason": one.reason, "width": one.width,
                    "sizes": None if one.sizes is None else one.sizes._asdict(), "script": one.script,
                }
                for one in self.outcomes if one.verdict not in ("holds", "not applicable")
            ],
        }  # fmt: skip

    def lines(self, width: int = 120) -> Iterator[tuple[Verdict | None, str]]:
        """Iterate over the lines of a table, each with the verdict that it is about.

        Args:
            width: characters of a line.
        """
        yield None, f"{self.subject}, run by {self.entry}, in {self.dtype}"
        rows: list[tuple[Verdict | None, tuple[str, ...]]] = [(None, ("law", "", "error / allowed", "what was found"))]
        for one in self.outcomes:
            if one.verdict != "not applicable":
                errors = f"{one.error:.0e} / {one.allowed:.0e}" if one.verdict in ("holds", "fails") else ""
                rows.append((one.verdict, (one.law, one.verdict, errors, one.finding)))
        sizes = [max(len(row[i]) for _, row in rows) for i in range(3)]
        sizes[0] = min(sizes[0], max(24, width - sizes[1] - sizes[2] - 40))
        sizes.append(max(20, width - sum(sizes) - 3))
        for verdict, row in rows:
            cells = [wrap(text, size) for text, size in zip(row, sizes, strict=True)]
            for parts in zip_longest(*cells, fillvalue=""):
                yield verdict, " ".join(part.ljust(size) for part, size in zip(parts, sizes, strict=True)).rstrip()
        for why, laws in self.not_applicable.items():
            yield "not applicable", f"not applicable, {why}: {'; '.join(laws)}"
        yield None, self.verdict()

    def __str__(self) -> str:
        return "\n".join(line for _, line in self.lines())

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td title='{escape(one.says)}'>{escape(one.law)}</td><td>{one.verdict}</td>"
            f"<td>{escape(one.finding)}</td></tr>"
            for one in self.outcomes
        )
        head = "<tr><th>law</th><th></th><th>what was found</th></tr>"
        return f"<p>{escape(self.verdict())}</p><table>{head}{rows}</table>"
