"""The words of the field, in pages, docstrings, messages, comments and names: phrases of ours that are never right."""

import ast
import re
from pathlib import Path

from imports import parsed
from pages import ROOT

CLEAN = ["README.md", "README.ko.md", "CONTRIBUTING.md", "CHANGELOG.md"]
CLEAN += ["docs", "examples", "results", "src", "tools", "benchmarks", "tests"]
"""The searched paths: files, and folders with all below them; this file lists the phrases and is left out."""

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
"""The phrases that are searched for, and what to write. A space also matches the end of a line."""
WORDS = r"(?:walk(?:ed|s)?|foretell|foretold|hand(?:ed)?_on|onset|residue|noise|stretch|lent|ways)"
NAMES = re.compile(rf"(?:^|_){WORDS}(?:_|$)|(?<!cut)(?<!go)_back$")
"""The pattern of names of files, classes, functions, arguments and variables, as words joined by underscores."""
PATTERNS = {better: re.compile(rf"\b(?:{old})".replace(" ", r"\s+"), re.I) for old, better in PHRASES.items()}

BETWEEN = re.compile(r"\"\s*[brf]*\"|\\[nt]|[\"#]")
"""The characters between words in the source of a module that its comments and strings lack."""
SUSPECT = re.compile(
    rf"\b(?:{'|'.join(PHRASES)})|(?<![a-z0-9]){WORDS}(?![a-z0-9])|\w_back\b".replace(" ", r"\s+").lower()
)


def found_in(text, first_line=1):
    """The phrases that a text should not contain: line, words, and what to write."""
    if not SUSPECT.search(text.lower()):
        return
    for better, pattern in PATTERNS.items():
        for match in pattern.finditer(text):
            line = first_line + text.count("\n", 0, match.start())
            yield f"{line}: {' '.join(match.group().split())!r}: write {better}"


def found_in_python(source):
    """The phrases that a module should not contain in its strings (docstrings, messages, parts of f-strings), comments
    and names of a module.

    Parsing takes longest, and is left out where the words are nowhere in the source.
    """
    if not SUSPECT.search(BETWEEN.sub(" ", snake(source))):
        return
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from found_in(node.value, node.lineno)
        for name in defined_names(node):
            yield from found_in_name(name, getattr(node, "lineno", 1))
    yield from found_in("\n".join(line.partition("#")[2].lstrip("# ") for line in source.splitlines()))


def defined_names(node):
    """The names that a node defines; those of other packages that it uses are theirs."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
            yield name
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            yield name


def snake(name):
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()


def found_in_name(name, line=1):
    if NAMES.search(snake(name).strip("_")):
        yield f"{line}: the name {name!r}: see the glossary"


MADE = {"_build", "page.html"}  # what a build leaves, which git does not keep


def searched():
    below = [path for name in CLEAN for path in ([ROOT / name] if "." in name else (ROOT / name).rglob("*"))]
    suffixes = (".md", ".csv", ".py", ".html")
    return [p for p in below if p.suffix in suffixes and not MADE & set(p.parts) and p != Path(__file__)]


def test_the_words_are_those_of_the_field():
    assert [name for name in CLEAN if not (ROOT / name).exists()] == []
    phrases = []
    for path in searched():
        text = path.read_text(encoding="utf-8")
        of_file = [*found_in_name(path.stem), *(found_in_python if path.suffix == ".py" else found_in)(text)]
        phrases += [f"{path.relative_to(ROOT)}:{place}" for place in of_file]
    assert phrases == []


FRAGMENT = re.compile(
    r"(?:Of|By|Where|That|Those|Which|What|As|Like|Likewise|With|Without|In|On|At|For|From|To|Through|Between|Beside"
    r"|Until|Around|Inside|Since|And|Or|See|None|The same)\b"
)
"""The pattern of openings that read on from the name above a docstring, or refer to it; write a subject or a verb."""


def docstrings(source):
    """The strings of a module that stand as statements, with their lines: of definitions, and below assignments."""
    for node in ast.walk(parsed(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text


def test_a_docstring_is_understood_without_the_name_above_it():
    fragments = []
    for path in searched():
        name = path.relative_to(ROOT).as_posix()
        if path.suffix == ".py":
            texts = docstrings(path.read_text(encoding="utf-8"))
            fragments += [f"{name}:{line}: {text[:40]!r}" for line, text in texts if FRAGMENT.match(text.lstrip())]
    assert fragments == []


TEXTS = [
    "every token is foretold", "on the way\n    back", "time is walked", "2 seed(s)", "3 process(es)",
    "Initial values by name", "it tells even apart", "below by -0.0890", "The house", "시험 정확도",
]  # fmt: skip
SOURCES = [
    '"""Time is walked."""', 'raise ValueError("cannot hand\\n on")', 'raise ValueError("cannot\\nhand on")',
    'f"{n} seed(s) of"', "x = 1  # the onset", "# on the way\n# back\nx = 1", 'x = ("what a cell hands"\n     " on")',
    "def loop_walk(x): ...", "class DirectionNoise: ...", "def f(noise): ...", "way_back = 1", "self.onset = 1",
]  # fmt: skip


def test_a_phrase_is_found_wherever_a_module_has_it_and_a_name_only_where_it_is_defined():
    assert [text for text in TEXTS if len(list(found_in(text))) != 1] == []
    assert [source for source in SOURCES if len(list(found_in_python(source))) != 1] == []
    assert list(found_in_python("import os\nfor part in os.walk('.'): print(part, 'kept for backward')")) == []


WITHOUT_A_SUBJECT = [
    'seed = 1\n"""Of the run."""', 'def f():\n    """The same of rows."""', 'class A:\n    """What it is."""',
    'class A:\n    def f(self):\n        """\n        See `B`."""', '"""Where it runs."""',
]  # fmt: skip
WITH_A_SUBJECT = [
    'seed = 1\n"""The seed of the run."""', '"""Offsets of rows."""', 'many = 1\n"""Whether they are."""',
    'def f():\n    """Write it."""\n    return "Of no docstring"',
]  # fmt: skip


def test_openings_of_fragments_are_found_in_docstrings_alone():
    def openings(source):
        return [text for _, text in docstrings(source) if FRAGMENT.match(text.lstrip())]

    assert [source for source in WITHOUT_A_SUBJECT if len(openings(source)) != 1] == []
    assert [source for source in WITH_A_SUBJECT if openings(source)] == []
