"""The verdicts of the laws on a subject: a record for each, and the report of all."""

from collections import Counter
from dataclasses import dataclass
from io import StringIO
from math import isfinite
from typing import Literal, TypeAlias

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from gatedrnn.errors import LawsBroken
from gatedrnn.laws.laws import CaseSizes
from gatedrnn.terminal import Console, plain

Verdict: TypeAlias = Literal["holds", "fails", "noted", "not applicable", "stopped"]
WORDS: dict[Verdict, str] = {
    "holds": "hold", "fails": "FAIL", "stopped": "STOPPED", "noted": "noted", "not applicable": "not applicable",
}  # fmt: skip
STYLES = {"fails": "bold red", "stopped": "bold red", "noted": "yellow", "not applicable": "dim", "holds": ""}


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
    """The tensor that differs; or why the law cannot be asked; or the sentence that calls the use unsupported."""
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
        absent: dict[str, list[str]] = {}
        for one in self.outcomes:
            if one.verdict == "not applicable":
                absent.setdefault(one.reason, []).append(one.law)
        return {
            "subject": self.subject, "entry": self.entry, "dtype": self.dtype, "passed": not self.failures,
            "holds": {one.law: [one.error, one.allowed] for one in self.outcomes if one.verdict == "holds"},
            "not applicable": absent,
            "others": [
                {
                    "law": one.law, "verdict": one.verdict, "error": one.error if isfinite(one.error) else None,
                    "allowed": one.allowed, "reason": one.reason, "width": one.width,
                    "sizes": None if one.sizes is None else one.sizes._asdict(), "script": one.script,
                }
                for one in self.outcomes if one.verdict not in ("holds", "not applicable")
            ],
        }  # fmt: skip

    def table(self, *, scripts: int = 0, console: Console | None = None) -> None:
        """Print a line for each law, the laws that cannot be asked by the reason, and so many scripts of failures."""
        console = console or Console()
        title = f"{self.subject}, run by {self.entry}, in {self.dtype}"
        table = Table(title=plain(title), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
        table.add_column("law", overflow="fold", min_width=24)
        table.add_column("", no_wrap=True)
        table.add_column("error / allowed", justify="right", no_wrap=True)
        table.add_column("what was found", overflow="fold", ratio=1)
        absent: dict[str, list[str]] = {}
        for one in self.outcomes:
            if one.verdict == "not applicable":
                absent.setdefault(one.reason, []).append(one.law)
                continue
            errors = f"{one.error:.0e} / {one.allowed:.0e}" if one.verdict in ("holds", "fails") else ""
            found = "; ".join(part for part in (one.case, one.reason) if part)
            table.add_row(one.law, Text(one.verdict, style=STYLES[one.verdict]), errors, Text(plain(found)))
        console.print(table)
        for why, laws in absent.items():
            console.print(f"not applicable, {why}: {'; '.join(laws)}", style="dim", highlight=False)
        for one in [one for one in self.failures if one.script][:scripts]:
            if one.script:
                console.print(f"# {one.law}", style="bold")
                console.print(one.script, soft_wrap=True, highlight=False)
        console.print(self.verdict(), highlight=False)

    def __str__(self) -> str:
        out = StringIO()
        self.table(console=Console(file=out, width=120))
        return out.getvalue()

    def _repr_html_(self) -> str:
        from html import escape

        rows = "".join(
            f"<tr><td title='{escape(one.says)}'>{escape(one.law)}</td><td>{one.verdict}</td>"
            f"<td>{escape('; '.join(part for part in (one.case, one.reason) if part))}</td></tr>"
            for one in self.outcomes
        )
        head = "<tr><th>law</th><th></th><th>what was found</th></tr>"
        return f"<p>{escape(self.verdict())}</p><table>{head}{rows}</table>"
