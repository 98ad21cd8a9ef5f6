"""Pictures of the documentation, as a Sphinx extension and as files.

    python docs/pictures FOLDER

writes each in both languages. A page says

    ```{picture} lstm 2
    ```

for the LSTM as far as its second stage, in the page's language, with lines in the colour of its text; below it stands
what a reader hears who does not see it.
"""

from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive

from pictures import cells, sequences
from pictures.drawing import Drawing
from pictures.words import DESCRIPTIONS, KOREAN


def picture(name: str, stage: int = 0, language: str = "en") -> str:
    """A picture as SVG.

    Raises:
        ValueError: there is none of that name and stage.
    """
    return _drawing(name, stage, _words(language)).svg(described(name, stage, language))


def described(name: str, stage: int, language: str) -> str:
    """The sentence in the place of a picture."""
    return DESCRIPTIONS[f"{name} {stage}" if stage else name][language]


def _words(language: str) -> dict[str, str]:
    return KOREAN if language == "ko" else {}


def _drawing(name: str, stage: int, words: dict[str, str]) -> Drawing:
    if name in cells.CELLS and 0 <= stage <= cells.CELLS[name][1]:
        return cells.cell(name, stage, words)
    made = {
        "ladder-lstm": lambda: sequences.ladder("lstm", words), "ladder-gru": lambda: sequences.ladder("gru", words),
        "scan": lambda: sequences.scan(words), "lanes": lambda: sequences.lanes(words),
        "cuts": lambda: sequences.cuts(words),
    }  # fmt: skip
    if name not in made or stage:
        raise ValueError(f"no picture {name!r} {stage or ''}")
    return made[name]()


def every() -> list[tuple[str, int]]:
    """Names and stages of all pictures."""
    stages = [(name, stage) for name, (_, last) in cells.CELLS.items() for stage in range(last + 1)]
    return [*stages, *((name, 0) for name in ("ladder-lstm", "ladder-gru", "scan", "lanes", "cuts"))]


def write(folder: Path) -> None:
    """All pictures as files of their own, `NAME-STAGE.LANGUAGE.svg`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, stage in every():
        for language in ("en", "ko"):
            drawn = _drawing(name, stage, _words(language)).svg(described(name, stage, language), own_file=True)
            (folder / f"{name}{f'-{stage}' if stage else ''}.{language}.svg").write_text(drawn + "\n", encoding="utf-8")


class Picture(Directive):
    """A picture in a page."""

    required_arguments, optional_arguments = 1, 1

    def run(self) -> list[nodes.Node]:
        page = self.state.document.settings.env.docname
        name, stage = self.arguments[0], int(self.arguments[1]) if len(self.arguments) > 1 else 0
        drawn = picture(name, stage, "ko" if "/ko/" in f"/{page}" else "en")
        return [nodes.raw("", f'<figure class="drawn">{drawn}</figure>', format="html")]


def setup(app) -> dict[str, bool]:
    app.add_directive("picture", Picture)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
