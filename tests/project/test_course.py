"""The course: both languages have one code and one outline, exercises have solutions, and every notebook runs."""

import io
import os
import re
import subprocess
import sys
import tokenize

import pytest
from pages import ROOT, SHARED, needs_shared_data
from refusals import refused

sys.path.insert(0, str(ROOT / "docs"))
import course

NOTEBOOKS = [path.stem for path in sorted(course.LEARN.glob("[0-9]*.md"))]
LONGEST = 88  # letters of a line of code
MINUTES = 3  # of each notebook at most, on two cores
ENGLISH = {name: (course.LEARN / f"{name}.md").read_text() for name in NOTEBOOKS}
KOREAN = {name: (course.LEARN / "ko" / f"{name}.md").read_text() for name in NOTEBOOKS}


def prose(notebook):
    return re.sub(r"^```.*?^```$", "", notebook, flags=re.M | re.S)


def headings(notebook):
    return [len(level) for level in re.findall(r"^(#+) ", prose(notebook), re.M)]


def formulas(notebook):
    """The formulas between dollars, without words."""
    found = re.findall(r"\$\$.*?\$\$|\$[^$]+\$", re.sub(r"`[^`]*`", "", prose(notebook)), re.S)
    return sorted(re.sub(r"\\text\{[^}]*\}|\s", "", one) for one in found if r"\text" not in one)


def test_both_languages_have_one_code_one_outline_and_the_same_formulas():
    for name in NOTEBOOKS:
        english, korean = ENGLISH[name], KOREAN[name]
        in_korean = course.cells(course.translated(korean, english))
        assert {key: code_of(cell) for key, cell in in_korean.items()} == {
            key: code_of(cell) for key, cell in course.cells(english).items()
        }, name
        assert [headings(korean), formulas(korean)] == [headings(english), formulas(english)], name
        assert f"(ko/{name}.md)" in english and f"(../{name}.md)" in korean
        assert all(f"({name}.md)" in (course.LEARN / language / "index.md").read_text() for language in ("", "ko"))
        assert english.count("**Expect**") == korean.count("**예상**") >= 3, name


def tokens_of(cell):
    body = re.sub(r"^(```.*|:\w+: .*)$", "", cell, flags=re.M)
    return list(tokenize.generate_tokens(io.StringIO(body).readline))


def code_of(cell):
    """A cell's code without what a learner reads: comments and strings."""
    return [token.string for token in tokens_of(cell) if token.type not in course.WRITTEN]


def sentences_of(cell):
    """A cell's comments and docstrings, and its strings with words side by side."""
    spoken = [token.string for token in tokens_of(cell) if token.type in course.WRITTEN]
    return [each for each in spoken if re.search(r"[a-z]{2,},? [a-z]{2,}", re.sub(r"\{[^}]*\}", "", each))]


def exercises(notebook):
    return re.split(r"^\*\*\d+\.\*\*", notebook, flags=re.M)[1:]


def test_every_exercise_has_a_solution_that_is_hidden_at_first():
    for name in NOTEBOOKS:
        asked, in_korean = exercises(ENGLISH[name]), exercises(KOREAN[name])
        assert asked and len(asked) == len(in_korean), name
        for own, other in zip(asked, in_korean, strict=True):
            solutions = course.cells(own)
            assert solutions or "<details><summary>Answer</summary>\n\n" in own, name
            assert all(cell.startswith("solution-") for cell in solutions), name
            assert all(":tags: [hide-cell]" in code for code in solutions.values()), name
            assert ("<details><summary>Answer" in own) == ("<details><summary>답" in other), name


def test_no_line_is_lost_as_a_comment_and_every_link_has_words():
    for page in (*ENGLISH.values(), *KOREAN.values()):
        assert re.findall(r"^\s*%.*", prose(page), re.M) == [] and "[](" not in page


def test_a_notebook_links_to_the_notebooks_beside_it_and_to_the_documentation(tmp_path):
    folder, page = tmp_path / "notebooks", course.Path("ko/01-a.md")
    text = course.linked("[a](08-b.md) [b](../01-a.md#x) [c](../../results.md#d)", page, folder)
    first, second, third = re.findall(r"\((.*?)\)", text)
    assert (first, second) == ("08-b.ipynb", "../01-a.ipynb#x")
    assert (folder / "ko" / third.partition("#")[0]).resolve() == ROOT / "docs" / "results.md"
    alone = course.linked('[a](08-b.md) [c](../../results.md#d) <a href="../w.html">e</a>', page)
    assert alone == "[a](08-b.ipynb) c e"


def test_pages_of_both_sites_link_to_each_other_by_html():
    assert (
        course.between("[한국어](ko/01-a.md) [b](02-b.md)", korean=False)
        == '<a href="ko/01-a.html">한국어</a> [b](02-b.md)'
    )
    linked = course.between("[English](../01-a.md#x) [b](02-b.md)", korean=True)
    assert linked == '<a href="../01-a.html#x">English</a> [b](02-b.md)'


@pytest.mark.slow  # which has the packages of the documentation
def test_a_notebook_to_download_has_its_pictures_within():
    (notebook,) = (course.as_notebook(path, text) for path, text in course.notebooks() if str(path) == "01-gates.md")
    text = "\n".join(cell.source for cell in notebook.cells)
    assert "data:image/svg+xml;base64," in text and "{picture}" not in text and ".md)" not in text


@pytest.mark.slow
def test_the_first_figure_falls_from_left_to_right_as_its_text_says(tmp_path):
    cells = course.cells(ENGLISH["01-gates"])
    bodies = [course.CELL.fullmatch(cells[name])["body"] for name in ("setup", "gradient-reach")]
    code = re.sub(r"^:\w+: .*\n", "", "\n".join(bodies), flags=re.M)
    check = """
plain, half_open, open_wide = (line.get_ydata() for line in axes.lines)
assert all(list(line.get_xdata()) == list(range(60)) for line in axes.lines) and not axes.xaxis_inverted()
assert plain[0] > 1 and plain[-1] < 1e-12 and half_open[-1] < 1e-9 and 0.1 < min(open_wide)
"""
    (tmp_path / "script.py").write_text(code + check, encoding="utf-8")
    given = os.environ | {"MPLBACKEND": "Agg"}
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, env=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_korean_notebook_to_download_draws_letters_where_a_font_has_them(tmp_path):
    from matplotlib import font_manager

    for path, text in course.notebooks():
        notebook = course.as_notebook(path, text)
        first = next(cell.source for cell in notebook.cells if cell.cell_type == "code")
        assert (first == course.HANGUL) == (path.parent.name == "ko"), path
    if not any("Nanum" in font for font in font_manager.findSystemFonts()):
        pytest.skip("no Nanum font on this machine (Debian: apt-get install fonts-nanum)")
    lines = re.findall(r": (.*[가-힣].*)", course.TRANSLATIONS.search(KOREAN["01-gates"])["table"])
    figure = f"""
figure, (linear, logarithmic) = plt.subplots(2)
linear.set(xlabel={" ".join(lines)!r}, ylim=(-1, 1))
logarithmic.semilogy([1e-3, 1e3])  # its minus signs come of the first font alone
figure.savefig("figure.png")
"""
    (tmp_path / "script.py").write_text(course.HANGUL + figure, encoding="utf-8")
    given = os.environ | {"MPLBACKEND": "Agg", "PYTHONWARNINGS": "error", "PYTHONUTF8": "1"}
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, env=given, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_translation_that_differs_is_refused():
    one, two = ("```{code-cell}\n:name: one\nx = 1\n```\n", "```{code-cell}\n:name: two\nx = 2\n```\n")
    empty = "```{code-cell}\n:name: one\n```\n"
    assert course.translated(f"하나\n{empty}", one) == f"하나\n{one}"
    refused(ValueError, "in English", course.translated, empty, one + two)
    refused(ValueError, "not empty", course.translated, one, one)


def test_comments_and_strings_are_translated_and_nothing_else_of_the_code():
    code = """```{code-cell}
:name: one
:tags: [hide-cell]
def step(x):
    \'\'\'A step of time.
    And more.\'\'\'
    return f"step {step}: a step of time", x  # a step, steps
```
"""
    korean = "```{translations}\nstep: 스텝\na step of time: 시간의 스텝\n```\n```{code-cell}\n:name: one\n```\n"
    made = course.translated(korean, code)
    assert "def step(x):" in made and ":tags: [hide-cell]" in made and "{translations}" not in made
    assert "A 스텝 of time.\n    And more." in made and 'f"스텝 {step}: 시간의 스텝", x  # a 스텝, steps' in made
    refused(ValueError, "no code has", course.translated, korean.replace("step:", "walk:", 1), code)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_lecture_has_goals_a_summary_short_lines_and_speaks_the_learners_language(name):
    english, korean = ENGLISH[name], course.translated(KOREAN[name], ENGLISH[name])
    for page, goals, summary, after in (
        (english, "**Goals.**", "## Summary", "**Next.**"), (korean, "**목표.**", "## 정리", "**다음.**"),
    ):  # fmt: skip
        assert page.index(goals) < page.index("{code-cell}") < page.index(summary) < page.index(after)
        code = [line for cell in course.cells(page).values() for line in cell.splitlines()]
        assert [line for line in code if len(line) > LONGEST and not re.match(r":\w+: ", line)] == []
    for cell in course.cells(korean).values():
        assert [said for said in sentences_of(cell) if not re.search("[가-힣]", said)] == []


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_figure_is_described_in_a_sentence(name):
    for key, cell in course.cells(ENGLISH[name]).items():
        if "plt.show()" in cell:
            said = re.search(r'^:mystnb: \{image: \{alt: "(.+)"\}\}$', cell, re.M)
            assert said and said[1].endswith(".") and len(said[1]) > 30, key
            assert f'"{said[1]}":' in KOREAN[name], key


@pytest.mark.slow
@needs_shared_data
@pytest.mark.timeout(60 * MINUTES + 30)
@pytest.mark.parametrize("name", [name for name in NOTEBOOKS if "GATEDRNN_DATA" in ENGLISH[name]])
def test_a_notebook_runs_with_the_readers_own_data(name, tmp_path):
    """Run it as a script; with what ships, `make docs` runs every notebook."""
    lines = [line for cell in course.cells(ENGLISH[name]).values() for line in cell.splitlines()[1:-1]]
    (tmp_path / "script.py").write_text("\n".join(line for line in lines if not re.match(r":\w+: ", line)))
    given = os.environ | {"MPLBACKEND": "Agg", "GATEDRNN_DATA": str(SHARED)}
    asked = {"env": given, "timeout": 60 * MINUTES, "capture_output": True, "text": True}
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, **asked)
    assert done.returncode == 0, done.stderr
    assert any(name in done.stdout for name in ("AG News", "WikiText-2", "OT:")), done.stdout
