"""The course in two languages, as a Sphinx extension: code stands in the English notebooks alone.

    python docs/course.py FOLDER

writes the notebooks as .ipynb, the Korean ones into FOLDER/ko.

A Korean notebook, `learn/ko/NAME.md`, names each code cell of `learn/NAME.md` by an empty one of the same `:name:`, and
reads its code when it is built. Equal code is executed once: the second language finds the outputs in the cache.
"""

import os
import re
import sys
from pathlib import Path

LEARN = Path(__file__).parent / "learn"

LINK = re.compile(r"\]\((?P<path>[\w./-]+\.md)(?P<place>#[\w-]+)?\)")
NOTEBOOK = re.compile(r"\d+-.*\.md")
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n:name: (?P<name>[\w-]+)\n(?P<body>.*?)^```$", re.M | re.S)


def cells(notebook: str) -> dict[str, str]:
    """The code cells of a notebook, fences and options with them, by name."""
    return {found["name"]: found[0] for found in CELL.finditer(notebook)}


def translated(korean: str, english: str) -> str:
    """A Korean notebook with the code of the English one.

    Raises:
        ValueError: they do not name the same cells in the same order, or a Korean cell is not empty.
    """
    code, named = cells(english), [found["name"] for found in CELL.finditer(korean)]
    if named != list(code):
        raise ValueError(f"code cells {named}, in English {list(code)}")
    if filled := [found["name"] for found in CELL.finditer(korean) if found["body"].strip()]:
        raise ValueError(f"code cells {filled} are not empty: their code belongs in the English notebook")
    return CELL.sub(lambda found: code[found["name"]], korean)


def notebooks():
    """(path below `learn`, whole text) of every notebook in both languages."""
    for path in sorted(LEARN.glob("[0-9]*.md")):
        english, korean = path.read_text(), LEARN / "ko" / path.name
        yield path.relative_to(LEARN), english
        yield korean.relative_to(LEARN), translated(korean.read_text(), english)


def linked(text: str, page: Path, folder: Path) -> str:
    """A page's text as a notebook in `folder`: its links lead to the notebooks there, and else to the documentation."""
    into = (folder / page).parent

    def link(match):
        target = (LEARN / page).parent.joinpath(match["path"]).resolve()
        written = target.relative_to(LEARN).with_suffix(".ipynb") if NOTEBOOK.match(target.name) else None
        there = target if written is None else (folder / written).resolve()
        return f"]({Path(os.path.relpath(there, into.resolve())).as_posix()}{match['place'] or ''})"

    return LINK.sub(link, text)


def write(folder):
    """All notebooks as .ipynb; the cells of solutions are folded."""
    import jupytext

    for path, text in notebooks():
        into = (folder / path).with_suffix(".ipynb")
        into.parent.mkdir(parents=True, exist_ok=True)
        notebook = jupytext.reads(linked(text, path, folder), fmt="md:myst")
        for cell in notebook.cells:
            if "hide-cell" in cell.metadata.get("tags", []):
                cell.metadata["jupyter"] = {"source_hidden": True, "outputs_hidden": True}
        jupytext.write(notebook, into)


def read(app, name, content):
    """Put the code into a Korean notebook."""
    if name.startswith("learn/ko/") and not name.endswith("index"):
        content[0] = translated(content[0], (LEARN / f"{Path(name).name}.md").read_text())


def language(app, name, template, context, tree):
    """Say in a Korean page that it is one: screen readers choose their voice by it."""
    if name.startswith("learn/ko/"):
        context["language"] = "ko"


def setup(app):
    app.connect("source-read", read)
    app.connect("html-page-context", language)
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    write(Path(sys.argv[1]))
