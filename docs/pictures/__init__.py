"""Pictures of the documentation; `python docs/pictures FOLDER` writes each as a file, in both languages."""

from pathlib import Path

from pictures import cells, sequences
from pictures.drawing import Drawing
from pictures.words import DESCRIPTIONS, KOREAN


def picture(name: str, stage: int = 0, language: str = "en", own_file: bool = False) -> str:
    """A picture as SVG, within a page or as a file of its own.

    Raises:
        ValueError: there is none of that name and stage.
    """
    return _drawing(name, stage, _words(language)).svg(described(name, stage, language), own_file=own_file)


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
            file = folder / f"{name}{f'-{stage}' if stage else ''}.{language}.svg"
            file.write_text(picture(name, stage, language, own_file=True) + "\n", encoding="utf-8")
