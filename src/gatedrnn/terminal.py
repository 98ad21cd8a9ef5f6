"""Text of others in a terminal: shown, never obeyed."""

import re
from io import TextIOWrapper
from typing import IO, Literal

from rich.console import Console as RichConsole
from rich.text import Text

_COMMANDS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and line break: ESC, BEL, CR, the 8-bit CSI …
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"  # marks that turn the direction of writing, line separators
    "\ud800-\udfff]"  # halves of a character, which no encoding holds
)


def plain(text: str) -> str:
    """A text without characters that a terminal obeys or cannot print: each is shown as Python writes it, ESC as
    \\x1b. Tabs and line breaks stay."""
    return _COMMANDS.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def show_all(stream: IO[str]) -> None:
    """Let a stream show a character that its encoding lacks, such as Korean in ASCII, as Python writes it, instead of
    raising."""
    if isinstance(stream, TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
        stream.reconfigure(errors="backslashreplace")


class Console(RichConsole):
    """rich's, for text that others wrote: labels, names of files, what a model writes.

    Whatever string is printed, in a table too, is shown `plain`, and brackets in it are brackets, not rich's markup. A
    `rich.text.Text` is printed as it is: make it from `plain` text.
    """

    def __init__(
        self, *, stderr: bool = False, file: IO[str] | None = None, width: int | None = None,
        force_terminal: bool | None = None,
        color_system: Literal["auto", "standard", "256", "truecolor"] | None = "auto",
    ) -> None:  # fmt: skip
        super().__init__(
            markup=False, emoji=False, stderr=stderr, file=file, width=width, force_terminal=force_terminal,
            color_system=color_system,
        )  # fmt: skip
        show_all(self.file)

    def render_str(self, text: str, *args: object, **options: object) -> Text:
        return super().render_str(plain(text), *args, **options)  # type: ignore[arg-type]  # as they came
