"""The course in two languages, as a Sphinx extension: code stands in the English notebooks alone.

    python docs/course.py FOLDER

writes the notebooks as .ipynb, the Korean ones into FOLDER/ko.

The Korean course is a site of its own within the other, with its own menu and search; links between both are of HTML.

A Korean notebook, `learn/ko/NAME.md`, names each code cell of `learn/NAME.md` by an empty one of the same `:name:`, and
reads its code when it is built. A block of it, `{translations}`, has the words of comments and strings in Korean: what
a learner reads in code, on axes and in what is printed.
"""

import base64
import io
import os
import re
import sys
import tokenize
from html import escape
from pathlib import Path

import pictures
import yaml

HANGUL = """# 그림의 한글: 이 컴퓨터에 있는 한글 글꼴을 씁니다. matplotlib의 기본 글꼴에는 한글이 없습니다.
import matplotlib.pyplot as plt
from matplotlib import font_manager

for path in font_manager.findSystemFonts():
    if "Nanum" in path:  # 방금 설치했다면 matplotlib의 글꼴 목록에 아직 없습니다
        font_manager.fontManager.addfont(path)
hangul = ["NanumGothic", "Malgun Gothic", "Apple SD Gothic Neo", "AppleGothic",
          "Noto Sans CJK KR", "Noto Sans CJK JP", "Noto Sans KR", "Baekmuk Gulim", "UnDotum"]
hangul = [font for font in hangul if font in font_manager.get_font_names()]
plt.rcParams["font.family"] = ["DejaVu Sans", *hangul[:1]]
if not hangul:
    print("한글 글꼴이 없어 그림의 한글이 네모로 나옵니다.",
          "Colab과 Ubuntu에서는 !apt-get install -y fonts-nanum 을 실행한 뒤 이 셀을 다시 실행하십시오.")"""
"""The first cell of a Korean notebook to download; on the site the page's own font draws the letters of figures."""

LEARN = Path(__file__).parent / "learn"

WRITTEN = tokenize.COMMENT, tokenize.STRING

LINK = re.compile(r"\[(?P<words>[^\]]*)\]\((?P<path>[\w./-]+\.md)(?P<place>#[\w-]+)?\)")
ANCHOR = re.compile(r'<a href="[^"]*">(?P<words>.*?)</a>')
PICTURE = re.compile(r"^```\{picture\} (?P<name>[\w-]+) ?(?P<stage>\d*)\n```$", re.M)
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
    head = re.sub(
        r"^:mystnb:.*", lambda option: phrases.sub(lambda found: table[found[0]], option[0]), head, flags=re.M
    )
    return head + "".join(lines) + fence


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


def linked(text: str, page: Path, folder: Path | None = None) -> str:
    """A page's text as a notebook: its links lead to the notebooks beside it, in a folder also to the documentation's
    pages. Without a folder, for a reader who has the notebook alone, those are words.
    """
    into = (folder / page).parent if folder else None

    def link(match):
        target = (LEARN / page).parent.joinpath(match["path"]).resolve()
        if NOTEBOOK.match(target.name):
            there = Path(os.path.relpath(target.with_suffix(".ipynb"), (LEARN / page).parent)).as_posix()
        elif into is None:
            return match["words"]
        else:
            there = Path(os.path.relpath(target, into.resolve())).as_posix()
        return f"[{match['words']}]({there}{match['place'] or ''})"

    return ANCHOR.sub(r"\g<words>", LINK.sub(link, text))  # of pages that are built, which a notebook does not have


def drawn(text: str, language: str) -> str:
    """A page whose pictures are images within it, for readers without this site."""

    def image(match):
        name, stage = match["name"], int(match["stage"] or 0)
        said = pictures.described(name, stage, language)
        svg = base64.b64encode(pictures.picture(name, stage, language, own_file=True).encode()).decode()
        return f"![{said}](data:image/svg+xml;base64,{svg})"

    return PICTURE.sub(image, text)


def as_notebook(path: Path, text: str, folder: Path | None = None):
    """A page of the course as a Jupyter notebook; the cells of solutions are folded."""
    import jupytext
    import nbformat

    language = "ko" if path.parent.name == "ko" else "en"
    notebook = jupytext.reads(drawn(linked(text, path, folder), language), fmt="md:myst")
    if language == "ko":
        first = next(n for n, cell in enumerate(notebook.cells) if cell.cell_type == "code")
        notebook.cells.insert(first, nbformat.v4.new_code_cell(HANGUL, id="hangul"))
    for cell in notebook.cells:
        if "hide-cell" in cell.metadata.get("tags", []):
            cell.metadata["jupyter"] = {"source_hidden": True, "outputs_hidden": True}
    return notebook


def write(folder: Path, language: str | None = None, within_site: bool = False) -> None:
    """Notebooks as .ipynb, those of one language or all."""
    import jupytext

    for path, text in notebooks():
        if language in (None, "ko" if path.parent.name == "ko" else "en"):
            into = (folder / path).with_suffix(".ipynb")
            into.parent.mkdir(parents=True, exist_ok=True)
            jupytext.write(as_notebook(path, text, None if within_site else folder), into)


def between(text: str, korean: bool) -> str:
    """A page whose links to the other language's site are HTML, which Sphinx leaves as it is."""

    def link(match):
        path, place = match["path"], match["place"] or ""
        if path.startswith("../") if korean else re.search(r"\bko/", path):
            return f'<a href="{path.removesuffix(".md")}.html{place}">{match["words"]}</a>'
        return match[0]

    return LINK.sub(link, text)


def read(app, name, content):
    """Put the code into a Korean notebook, and links between both sites."""
    korean = app.config.language == "ko"
    if korean and NOTEBOOK.match(f"{name}.md"):
        content[0] = translated(content[0], (LEARN / f"{name}.md").read_text(encoding="utf-8"))
    content[0] = between(content[0], korean)


BAR = {
    "en": ("Ran in {} s when this page was built, on one core.", "Download the notebook"),
    "ko": ("이 페이지를 만들 때 코어 하나로 {}초 걸렸습니다.", "노트북 내려받기"),
}


def head(app, name, template, context, tree):
    """Below a notebook's title: how long it runs, and the notebook to download."""
    stem = name.rpartition("/")[2]
    if "body" not in context or not NOTEBOOK.match(f"{stem}.md"):
        return
    ran = app.env.nb_metadata[name].get("exec_data") or {}
    time, download = BAR[app.config.language]
    said = f"{time.format(round(ran['runtime']))} " if ran.get("runtime") else ""
    bar = f'<p class="notebook">{escape(said)}<a href="{stem}.ipynb" download>{download}</a></p>'
    context["body"] = context["body"].replace("</h1>", f"</h1>\n{bar}", 1)


def downloads(app, failure):
    """Write the notebooks beside their pages."""
    if not failure and app.builder.name == "html":
        korean = app.config.language == "ko"
        write(Path(app.outdir).parent if korean else Path(app.outdir, "learn"), app.config.language, within_site=True)


def setup(app):
    app.connect("source-read", read)
    app.connect("html-page-context", head)
    app.connect("build-finished", downloads)
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    write(Path(sys.argv[1]))
