"""The course in two languages, as a Sphinx extension: code stands in the English notebooks alone.

    python docs/course.py FOLDER

writes the notebooks as .ipynb, the Korean ones into FOLDER/ko.

A Korean notebook, `learn/ko/NAME.md`, names each code cell of `learn/NAME.md` by an empty one of the same `:name:`, and
reads its code when it is built. A block of it, `{translations}`, has the words of comments and strings in Korean: what
a learner reads in code, on axes and in what is printed.
"""

import io
import os
import re
import sys
import tokenize
from pathlib import Path

import yaml

LEARN = Path(__file__).parent / "learn"

WRITTEN = tokenize.COMMENT, tokenize.STRING

LINK = re.compile(r"\]\((?P<path>[\w./-]+\.md)(?P<place>#[\w-]+)?\)")
NOTEBOOK = re.compile(r"\d+-.*\.md")
TRANSLATIONS = re.compile(r"^```\{translations\}\n(?P<table>.*?)^```\n", re.M | re.S)
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n:name: (?P<name>[\w-]+)\n(?P<body>.*?)^```$", re.M | re.S)


def cells(notebook: str) -> dict[str, str]:
    """The code cells of a notebook, fences and options with them, by name."""
    return {found["name"]: found[0] for found in CELL.finditer(notebook)}


def spoken(cell: str, table: dict[str, str]) -> str:
    """A code cell whose comments and strings have the words of a table, whole phrases, the longest first."""
    if not table:
        return cell
    head, body, fence = re.fullmatch(r"(```\{code-cell\}\n(?::[^\n]*\n)*)(.*?)(```)", cell, re.S).groups()
    longest = sorted(table, key=len, reverse=True)
    phrases = re.compile("|".join(rf"(?<!\w){re.escape(phrase)}(?!\w)" for phrase in longest))

    def said(token):
        computed = token.type == tokenize.STRING and "f" in token.string[:2].lower()  # names in its braces are code
        parts = re.split(r"(\{[^{}]*\})" if computed else "(?!)", token.string)
        parts[::2] = [phrases.sub(lambda found: table[found[0]], part) for part in parts[::2]]
        return "".join(parts)

    lines = body.splitlines(keepends=True)
    for token in reversed([*tokenize.generate_tokens(io.StringIO(body).readline)]):
        if token.type in WRITTEN:
            (first, start), (last, end) = token.start, token.end
            whole = lines[first - 1][:start] + said(token) + lines[last - 1][end:]
            lines[first - 1 : last] = whole.splitlines(keepends=True)
    return phrases.sub(lambda found: table[found[0]], head) + "".join(lines) + fence


def translated(korean: str, english: str) -> str:
    """A Korean notebook with the code of the English one.

    Raises:
        ValueError: cells are not the same ones in the same order, a Korean one is not empty, or a translation is of
            words that no code has.
    """
    found = TRANSLATIONS.search(korean)
    table = yaml.safe_load(found["table"]) if found else {}
    korean = TRANSLATIONS.sub("", korean)
    if unused := [words for words in table if words not in english]:
        raise ValueError(f"translations of {unused}, which no code has")
    code, named = cells(english), [found["name"] for found in CELL.finditer(korean)]
    if named != list(code):
        raise ValueError(f"code cells {named}, in English {list(code)}")
    if filled := [found["name"] for found in CELL.finditer(korean) if found["body"].strip()]:
        raise ValueError(f"code cells {filled} are not empty: their code belongs in the English notebook")
    return CELL.sub(lambda found: spoken(code[found["name"]], table), korean)


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
