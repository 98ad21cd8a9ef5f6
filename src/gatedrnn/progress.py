"""The progress of long work: notices of what begins, and a bar in a terminal or a line every so often elsewhere."""

from __future__ import annotations

import logging
import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.text import Text

from gatedrnn.terminal import Console, plain

_SECONDS_BETWEEN_LINES = 20.0
"""The seconds between two lines where the output is no terminal; a test makes it shorter."""
_SECONDS_BETWEEN_DRAWINGS = 0.2
"""The seconds between two drawings of a notebook's bar."""


class Progress(NamedTuple):
    """The progress of a run."""

    step: int
    steps: int
    """The number of steps in all."""
    loss: float
    tokens_per_second: float
    """The tokens per second of all processes together, so far."""
    doing: str = ""
    """The present work of the run where it is not training."""


class Notices(logging.Handler):
    """Shows what the library logs: warnings on the error stream, and through `show` what is about to take long."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.show: Callable[[str], None] = self._on_error_stream
        self.follow: Callable[[str, float], None] | None = None
        """Takes note of how far something is, 0 to 1."""

    def emit(self, record: logging.LogRecord) -> None:
        part = getattr(record, "part", None)
        if part is not None:
            if self.follow is not None:
                self.follow(self.format(record), part)
            return
        say = self._on_error_stream if record.levelno >= logging.WARNING else self.show
        say(self.format(record))

    @staticmethod
    def _on_error_stream(text: str) -> None:
        Console(stderr=True).print(Text(plain(text)), soft_wrap=True)


NOTICES = Notices()


@contextmanager
def notices_shown(level: int = logging.INFO) -> Iterator[None]:
    """The library's notices of that level and above are shown within."""
    logger = logging.getLogger("gatedrnn")
    before = logger.level
    logger.addHandler(NOTICES)
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.removeHandler(NOTICES)
        logger.setLevel(before)


@dataclass
class _Run:
    """A run under way."""

    began_at: float
    """The part of it that was done when it was first heard of: more than a step where it was resumed."""
    progress: Progress

    @property
    def part(self) -> float:
        return self.progress.step / self.progress.steps


class RunsDisplay:
    """Shows how far one or many runs are. Within its context notices are shown where it shows."""

    def __init__(self, console: Console, title: str) -> None:
        """Args:
        console: where to show it.
        title: what one run without a name is called, and the bar.
        """
        self.console, self.title = console, title
        self.finished, self.runs = 0, 1
        self._under_way: dict[str, _Run] = {}
        self._since = time.monotonic()
        self._done = 0.0  # runs that ended since then, by the part of each that was done since then
        self._doing, self._doing_since = "starting", self._since
        self._part: float | None = None
        """The part of the present work that is done, where that is known."""
        self._changing, self._ended = threading.Lock(), threading.Event()
        self._bars = Bars(
            TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("{task.fields[detail]}", markup=False), console=console, transient=True,
            disable=not console.is_terminal,
        )  # fmt: skip
        self._bar = self._bars.add_task(title, total=None, detail="")
        self._lines = threading.Thread(target=self._print_lines, daemon=True)

    def __enter__(self) -> Self:
        NOTICES.show, NOTICES.follow = self._announce, self._follow
        if self.console.is_terminal:
            self._bars.start()
        else:
            self._lines.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        NOTICES.show, NOTICES.follow = NOTICES._on_error_stream, None
        self._ended.set()
        self._bars.stop()
        if self._lines.is_alive():
            self._lines.join()

    def show(self, run: str, progress: Progress | None, finished: int, runs: int) -> None:
        """Take note of a run; None for its progress where it has ended.

        Args:
            run: its name; "" for none.
            progress: how far it is.
            finished, runs: how many have ended, and how many there are.
        """
        with self._changing:
            self.finished, self.runs = finished, runs
            if progress is None and finished < runs:
                self._doing, self._doing_since, self._part = "starting runs", time.monotonic(), None
            first = not self._under_way and not self._done
            if progress is None:
                ended = self._under_way.pop(run, None)
                self._done += 0.0 if ended is None else 1 - ended.began_at
            elif run in self._under_way:
                self._under_way[run].progress = progress
            else:
                self._under_way[run] = _Run(progress.step / progress.steps, progress)
                if first:
                    self._since = time.monotonic()
            if self.console.is_terminal:
                self._draw()

    def show_notes(self, notes: Iterable[str]) -> None:
        """Print what is to be known of data before anything is trained on them."""
        for note in notes:
            self.console.print(Text(plain(note)), soft_wrap=True)

    def show_one(self, progress: Progress) -> None:
        """Take note of a run that is the only one."""
        self.show("", progress, 0, 1)

    def _announce(self, text: str) -> None:
        with self._changing:
            self._doing, self._doing_since, self._part = text, time.monotonic(), None
        self.console.print(Text(plain(text)), soft_wrap=True)

    def _follow(self, text: str, part: float) -> None:
        with self._changing:
            if text != self._doing:
                self._doing, self._doing_since = text, time.monotonic()
            self._part = part
            if self.console.is_terminal:
                self._bars.update(
                    self._bar, description=plain(text), total=100, completed=round(100 * part), detail=self._still()
                )  # fmt: skip

    def _still(self) -> str:
        """The part that is done of the present work, or its time so far."""
        passed = time.monotonic() - self._doing_since
        if not self._part:
            return f"for {duration(passed)}"
        return f"{self._part:.0%}, {duration(passed / self._part - passed)} left"

    def _draw(self) -> None:
        states = list(self._under_way.items())
        alone = next(iter(self._under_way.values())).progress if self.runs == 1 and states else None
        left = self._left()
        details = [left] if left else []
        details += [_numbers(run.progress) if alone else f"{name} {run.part:.0%}" for name, run in states]
        self._bars.update(
            self._bar, description=self.title, detail=", ".join(details),
            total=self.runs if alone is None else alone.steps,
            completed=self.finished + sum(run.part for _, run in states) if alone is None else alone.step,
        )  # fmt: skip

    def _print_lines(self) -> None:
        """Print lines until the end, so that something is said whatever the work is at."""
        while not self._ended.wait(_SECONDS_BETWEEN_LINES):
            with self._changing:
                lines = self._state()
            for line in lines:
                self.console.print(Text(line), soft_wrap=True)

    def _state(self) -> list[str]:
        left = self._left()
        after = [f"{self.finished} of {self.runs} runs finished"] if self.runs > 1 else []
        after += [left] if left else []
        if not self._under_way:
            return [", ".join([f"{self._doing}, {self._still()}", *after])]
        return [
            ", ".join([f"{name or self.title}: step {_steps(run.progress)}, {_numbers(run.progress)}", *after])
            for name, run in self._under_way.items()
        ]

    def _left(self) -> str:
        """The time left in words, by the pace of all runs since the first was heard of; nothing where none is known."""
        parts = [(run.part, run.began_at) for run in self._under_way.values()]
        done = self._done + sum(part - began_at for part, began_at in parts)
        ahead = self.runs - self.finished - sum(part for part, _ in parts)
        if done <= 0:
            return ""
        return f"{duration((time.monotonic() - self._since) / done * ahead)} left"


class Display(Protocol):
    """Shows how far runs are, while its context lasts."""

    def show(self, run: str, progress: Progress | None, finished: int, runs: int) -> None:
        """Take note of a run; None for its progress where it has ended."""
        ...

    def show_one(self, progress: Progress) -> None:
        """Take note of a run that is the only one."""
        ...

    def show_notes(self, notes: Iterable[str]) -> None:
        """Show what is to be known of data before anything is trained on them."""
        ...


class Silent:
    """Shows nothing."""

    def show(self, run: str, progress: Progress | None, finished: int, runs: int) -> None:
        pass

    def show_one(self, progress: Progress) -> None:
        pass

    def show_notes(self, notes: Iterable[str]) -> None:
        pass


class NotebookBar:
    """A bar below a notebook's cell, of plain HTML: no widget has to be installed. It goes when the work is done."""

    def __init__(self, title: str) -> None:
        shown = sys.modules["IPython.display"]  # which every notebook has imported, and nothing else needs
        self.title, self._html, self._drawn_at = title, shown.HTML, 0.0
        self._place, self._parts = shown.DisplayHandle(), dict[str, float]()
        self._place.display(self._html(f"<p>{escape(title)}: starting</p>"))

    def show(self, run: str, progress: Progress | None, finished: int, runs: int) -> None:
        self._parts.pop(run, None)
        if progress is not None:
            self._parts[run] = progress.step / progress.steps
        now = time.monotonic()
        if now - self._drawn_at < _SECONDS_BETWEEN_DRAWINGS:
            return
        self._drawn_at, part = now, (finished + sum(self._parts.values())) / runs
        said = f"step {_steps(progress)}, {_numbers(progress)}" if runs == 1 and progress else f"{finished} of {runs}"
        bar = f'<progress value="{part:.4f}" max="1"></progress>'
        self._place.update(self._html(f"<p>{escape(self.title)} {bar} {escape(said)}</p>"))

    def show_one(self, progress: Progress) -> None:
        self.show("", progress, 0, 1)

    def show_notes(self, notes: Iterable[str]) -> None:
        for note in notes:
            print(plain(note))

    def end(self) -> None:
        """Take the bar away."""
        self._place.update(self._html(""))


@contextmanager
def display_of(title: str, wanted: bool | None) -> Iterator[Display]:
    """Show how far work is that a caller of Python began: in a notebook, or in a terminal.

    Args:
        title: what the bar is called.
        wanted: False for nothing; True for lines where there is neither; None for nothing there.
    """
    console = Console()
    if wanted is False or (wanted is None and not (console.is_terminal or console.is_jupyter)):
        yield Silent()
    elif console.is_jupyter:
        bar = NotebookBar(title)
        try:
            yield bar
        finally:
            bar.end()
    else:
        with notices_shown(), RunsDisplay(console, title) as display:
            yield display


def _steps(progress: Progress) -> str:
    doing = f" ({progress.doing})" if progress.doing else ""
    return f"{progress.step:,} of {progress.steps:,}{doing}"


def _numbers(progress: Progress) -> str:
    known = [] if math.isnan(progress.loss) else [f"loss {progress.loss:.4f}"]
    return ", ".join([*known, f"{progress.tokens_per_second:,.0f} tokens/s"])


def duration(seconds: float) -> str:
    """A time as one reads it: 45 s, 12 min, 3 h 20 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
