"""The words of the field, in pages, docstrings, messages, comments and names: phrases of ours that have a better word.

Only what is never right is listed. Words that also have a legitimate sense (part, keep, number, way) are left to
reading.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLEAN = [
    "README.md",
    "README.ko.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs",
    "examples",
    "results",
    "src",
    "tools",
    "benchmarks",
    "tests",
]
"""What is searched: files, and folders with all below them; this file lists the phrases and is left out."""

PHRASES = {
    r"foret(?:ell|old)\w*": "predict",
    r"hand(?:s|ed|ing)? on": "output, pass",
    r"ways? back": "backward",
    r"walk(?:ed|ing)(?! \|)": "iterated",  # not in a table of classes
    r"walks? (?:time|through time|back|forwards?|the sequence)": "iterates over time",
    r"ways? of running": "execution mode",
    r"[a-z]{3,}\(e?s\)": "the plural, or the singular for one",
    r"(?:gives?|giving) wrong numbers": "fails the accuracy check",
    r"initial values?": "initialisation",
    r"recomputed gradients?": "activation checkpointing",
    r"accumulated gradients?": "gradient accumulation",
    r"(?:dropout|drawn|layer's) noise": "dropout mask",
    r"residues?": "mismatch",
    r"onsets?": "reset state",
    r"stretch(?:es)? of (?:time|text|tokens|a sequence)": "chunk",
    r"(?:tells?|told) (?:\w+ )?apart": "distinguish",
    r"(?:is|are|was|were) taken up": "resumed",
    r"(?:below|lower|worse|less|fewer) by -": "the difference with its sign",
    r"stands? (?:once|here|there|beside|apart|alone|in the place)": "is",
    r"numbers? of (?:the|a) state": "elements of the state",
    r"the house": "the package",
    r"시험|훈련|매개변수|걸음|견주|초깃값": "테스트, 학습, 파라미터, 스텝, 비교, 초기화",
}
"""What is searched for, and what to write. A space also matches the end of a line."""
NAMES = (
    r"(?:^|_)(?:walk(?:ed|s)?|foretell|foretold|hand(?:ed)?_on|onset|residue|noise|stretch|lent|ways)(?:_|$)"
    r"|(?<!cut)(?<!go)_back$"
)
"""In the names of files, classes, functions, arguments and variables, as words joined by underscores."""
PATTERNS = {better: re.compile(rf"\b(?:{old})".replace(" ", r"\s+"), re.I) for old, better in PHRASES.items()}


def found_in(text: str, first_line: int = 1) -> Iterator[str]:
    """What a text should not contain: line, words, and what to write."""
    for better, pattern in PATTERNS.items():
        for match in pattern.finditer(text):
            line = first_line + text.count("\n", 0, match.start())
            yield f"{line}: {' '.join(match.group().split())!r}: write {better}"


def found_in_python(source: str) -> Iterator[str]:
    """The same of the strings (docstrings, messages, parts of f-strings), comments and names of a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from found_in(node.value, node.lineno)
        for name in defined_names(node):
            yield from found_in_name(name, getattr(node, "lineno", 1))
    comments = [""] * (source.count("\n") + 1)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            comments[token.start[0] - 1] = token.string.lstrip("# ")
    yield from found_in("\n".join(comments))


def defined_names(node: ast.AST) -> Iterator[str]:
    """The names that a node defines; those of other packages that it uses are theirs."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
            yield name
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            yield name


def found_in_name(name: str, line: int = 1) -> Iterator[str]:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_")
    if re.search(NAMES, words):
        yield f"{line}: the name {name!r}: see the glossary"


MADE = {"_build", "page.html"}
"""What a build leaves, which git does not keep."""


def searched() -> list[Path]:
    files = [
        path for name in CLEAN for path in ([ROOT / name] if (ROOT / name).is_file() else (ROOT / name).rglob("*"))
    ]
    suffixes = (".md", ".csv", ".py", ".html")
    this = Path(__file__)
    return [path for path in files if path.suffix in suffixes and not MADE & set(path.parts) and path != this]


@pytest.mark.parametrize("path", searched(), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_words_are_those_of_the_field(path):
    text = path.read_text(encoding="utf-8")
    found = found_in_python(text) if path.suffix == ".py" else found_in(text)
    assert [*found_in_name(path.stem), *found] == []


def test_all_that_is_clean_exists():
    assert [name for name in CLEAN if not (ROOT / name).exists()] == []


@pytest.mark.parametrize(
    "text",
    [
        "every token is foretold", "what a cell hands on", "on the way\n    back", "time is walked",
        "walks time backwards", "all ways of running", "2 seed(s)", "3 process(es)", "what gives wrong numbers",
        "initial values by name", "recomputed gradients", "accumulated gradients", "a layer's noise", "the residue",
        "the onset", "a stretch of text", "it tells even apart", "a run is taken up", "below by -0.0890",
        "it stands once", "a number of the state", "the house", "시험 정확도",
    ],
)  # fmt: skip
def test_a_phrase_is_found(text):
    assert len(list(found_in(text))) == 1


@pytest.mark.parametrize(
    "source",
    [
        '"""Time is walked."""', 'raise ValueError("cannot hand\\n on")', 'f"{n} seed(s) of"', "x = 1  # the onset",
        "# on the way\n# back\nx = 1", "def loop_walk(x): ...", "class DirectionNoise: ...", "def f(noise): ...",
        "way_back = 1", "self.onset = 1",
    ],
)  # fmt: skip
def test_a_phrase_is_found_wherever_a_module_has_it(source):
    assert len(list(found_in_python(source))) == 1


def test_a_name_that_is_used_but_not_defined_is_left_alone():
    assert list(found_in_python("import os\nfor part in os.walk('.'): print(part, 'kept for backward')")) == []
