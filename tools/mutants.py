"""Faults planted at random, and which of them a suite of tests sees.

    python tools/mutants.py draw MUTANTS                            the mutants of a seed, as JSON
    python tools/mutants.py cover COVERAGE [--tests FOLDER]         which test runs which line (minutes)
    python tools/mutants.py run MUTANTS COVERAGE KILLED [--tests FOLDER] [--jobs 2]
    python tools/mutants.py table MUTANTS OLD NEW                   killed by both, by one, by none; each survivor

Statements are drawn without replacement, each with the same chance, so that a file counts by its statements; then one
of the changes that `changes` knows is drawn for each. A mutant runs the fast tests whose coverage meets its line, one
of each function first; the first failure ends it. Those that are left are planted together, ten at a time, for the
whole suite, and what fails is run again with each alone.

cosmic-ray has operators for arithmetic and comparisons alone, which a third of the statements here lack, and mutmut 3
replaces functions whose source the package traces and compiles; so the changes are listed here.
"""

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeAlias

from gatedrnn.kernels.cpu.store import _DIGEST, packed

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "src/gatedrnn"
SCOPE = (
    "cells", "equations.py", "codegen", "layers", "kinds", "ops", "kernels/op.py", "kernels/backends.py", "kernels/cpu",
    "data", "study/statistics.py", "study/verdict.py", "training/checkpoint.py", "training/outcomes.py",
    "manifest.py", "records.py",
)  # fmt: skip
OUTSIDE = ("gpu.py",)
"""Files of those folders that the tests of a machine without Triton do not run."""
SEED, COUNT = 20261126, 200
COMPILED = re.compile(rf"{PACKAGE}/(?:kernels/cpu/|kinds/\w+/(?:cpu|loops|step)\.py)")
"""Files of what Numba compiles, which coverage does not see: all tests of these folders are asked."""
TESTS_OF_COMPILED = ("tests/unit/kernels", "tests/unit/ops")
SAVED = "kernels"
"""The folder in which a tree keeps what is compiled."""
TOGETHER = 10
FIRST_TESTS, SECONDS = 60, 1800
"""Tests that a mutant is shown before the whole suite, and how long any run of tests may take."""

Node: TypeAlias = ast.stmt | ast.expr
Contexts: TypeAlias = dict[str, dict[str, list[str]]]
"""Tests by file and line."""

COMPARED = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
COMPUTED = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "//", ast.Pow: "*",
    ast.BitAnd: "|", ast.BitOr: "&", ast.LShift: ">>", ast.RShift: "<<",
}  # fmt: skip
NAMES = {
    "min": "max", "max": "min", "any": "all", "all": "any", "zeros_like": "ones_like", "zeros": "ones", "floor": "ceil",
    "minimum": "maximum", "maximum": "minimum", "sorted": "list", "reversed": "list",
}  # fmt: skip


class Change(NamedTuple):
    """A piece of a file and what takes its place."""

    start: int
    stop: int
    old: str
    new: str


class Mutant(NamedTuple):
    """One planted fault."""

    number: int
    file: str
    line: int
    column: int
    """The column of the replaced piece, in characters."""
    text: str
    """The text of the line, by which it is found where others came before it."""
    old: str
    new: str

    def planted(self, source: str) -> str:
        """The file with the fault in it."""
        lines = source.splitlines(keepends=True)
        same = [number for number, line in enumerate(lines, 1) if line.rstrip("\n") == self.text]
        assert same, f"mutant {self.number}: {self.file} no longer has the line {self.text!r}"
        nearest = min(same, key=lambda number: abs(number - self.line))
        start = sum(map(len, lines[: nearest - 1])) + self.column
        stop = start + len(self.old)
        assert source[start:stop] == self.old, f"mutant {self.number}: {self.file} no longer has {self.old!r}"
        return source[:start] + self.new + source[stop:]


class Source:
    """A file, and where its nodes begin and end in it."""

    def __init__(self, text: str) -> None:
        self.text, self.lines = text, text.splitlines(keepends=True)
        self.begins = [0]
        for line in self.lines:
            self.begins.append(self.begins[-1] + len(line))

    def span(self, node: Node) -> tuple[int, int]:
        """Offsets in characters; the syntax tree counts bytes of UTF-8."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._offset(node.lineno, node.col_offset), self._offset(node.end_lineno, node.end_col_offset)

    def _offset(self, line: int, column: int) -> int:
        return self.begins[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def change(self, node: Node, new: str) -> Change:
        """The change that replaces a node."""
        start, stop = self.span(node)
        return Change(start, stop, self.text[start:stop], new)

    def of(self, node: Node) -> str:
        """The text of a node."""
        return self.text[slice(*self.span(node))]


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """The statements that do something: no imports, definitions, docstrings, declarations."""
    for node in ast.walk(tree):
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        passive = (
            ast.Import,
            ast.ImportFrom,
            ast.FunctionDef,
            ast.ClassDef,
            ast.Pass,
            ast.Try,
            ast.Global,
            ast.Nonlocal,
        )
        if isinstance(node, ast.stmt) and not is_docstring and not isinstance(node, passive):
            yield node


def changes(source: Source, statement: ast.stmt) -> list[Change]:
    """The faults that a statement can have, without those of the statements inside it."""
    faults = []
    match statement:
        case ast.Raise() | ast.AugAssign() | ast.Expr(value=ast.Call()):
            faults.append(source.change(statement, "pass"))
        case ast.If(test=test) | ast.While(test=test):
            faults.append(source.change(test, f"not ({source.of(test)})"))
        case ast.For(iter=iterated):
            faults.append(source.change(iterated, f"list({source.of(iterated)})[1:]"))
        case ast.Return(value=ast.Tuple(elts=[first, second, *_])):
            faults.append(source.change(first, source.of(second)))
        case ast.Break():
            faults.append(source.change(statement, "continue"))
        case ast.Continue():
            faults.append(source.change(statement, "break"))
    for node in expressions(statement):
        faults += list(changes_of(source, node))
    return faults


def expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """All in a statement's own lines: no annotation, no body, no message of an error."""
    apart = ("annotation", "body", "orelse", "handlers", "target", "targets")
    left = [child for name, child in _fields(statement) if name not in apart]
    if isinstance(statement, ast.Raise):
        left = []
    while left:
        node = left.pop()
        if isinstance(node, ast.JoinedStr | ast.Lambda | ast.stmt):
            continue
        if isinstance(node, ast.expr):
            yield node
        left += [child for _, child in _fields(node)]


def _fields(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield name, child


def changes_of(source: Source, node: ast.expr) -> Iterator[Change]:
    """The faults of one expression."""

    def between(left: ast.expr, right: ast.expr, new: str) -> Change:
        """An operator's place: what lies between two operands, their brackets apart."""
        start, stop = source.span(left)[1], source.span(right)[0]
        gap = source.text[start:stop]
        closing, opening = gap.count(")"), gap.count("(")
        return Change(start, stop, gap, ")" * closing + f" {new} " + "(" * opening)

    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in COMPARED:
            yield between(left, right, COMPARED[type(operator)])
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in COMPUTED:
            if not any(isinstance(side, ast.Constant) and isinstance(side.value, str) for side in (left, right)):
                yield between(left, right, COMPUTED[type(operator)])
        case ast.BoolOp(op=operator, values=[first, second, *_]):
            yield between(first, second, "or" if isinstance(operator, ast.And) else "and")
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield source.change(node, source.of(operand))
        case ast.Constant(value=bool(value)):
            yield source.change(node, str(not value))
        case ast.Constant(value=int() | float() as number):
            yield source.change(node, f"({number!r} + 1)")
        case ast.IfExp(body=body, orelse=orelse):
            yield source.change(node, f"({source.of(orelse)} if {source.of(node.test)} else {source.of(body)})")
        case ast.Call(func=function, args=arguments, keywords=keywords):
            name = function.id if isinstance(function, ast.Name) else None
            if isinstance(function, ast.Attribute):
                name = function.attr
            if name in NAMES:
                start, stop = source.span(function)
                old = source.text[start:stop]
                yield Change(start, stop, old, old[: len(old) - len(name)] + NAMES[name])
            if len(arguments) >= 2 and not any(isinstance(a, ast.Starred) for a in arguments[:2]):
                (start, _), (_, stop) = source.span(arguments[0]), source.span(arguments[1])
                swapped = f"{source.of(arguments[1])}, {source.of(arguments[0])}"
                yield Change(start, stop, source.text[start:stop], swapped)
            if keywords and keywords[-1].arg is not None and arguments:
                start, stop = source.span(arguments[-1])[1], source.span(keywords[-1].value)[1]
                kept = source.text[start : source.span(keywords[-2].value)[1]] if len(keywords) > 1 else ""
                if "(" not in source.text[start : source.span(keywords[0].value)[0]]:
                    yield Change(start, stop, source.text[start:stop], kept)


def files() -> list[str]:
    """The files that mutants are drawn from."""
    paths = [ROOT / PACKAGE / name for name in SCOPE]
    found = [path for folder in paths for path in ([folder] if folder.is_file() else sorted(folder.rglob("*.py")))]
    return [str(path.relative_to(ROOT)) for path in found if path.name not in OUTSIDE]


def draw(seed: int = SEED, count: int = COUNT) -> list[Mutant]:
    """The mutants of a seed."""
    there = []
    for file in files():
        source = Source((ROOT / file).read_text(encoding="utf-8"))
        there += [(file, source, statement) for statement in statements(ast.parse(source.text))]
    random.Random(seed).shuffle(there)
    drawn: list[Mutant] = []
    for number, (file, source, statement) in enumerate(there):
        possible = changes(source, statement)
        random.Random(f"{seed} {number}").shuffle(possible)
        if change := next((change for change in possible if _is_python(source, change)), None):
            line = source.text.count("\n", 0, change.start)
            column, text = change.start - source.begins[line], source.lines[line].rstrip("\n")
            drawn.append(Mutant(len(drawn), file, line + 1, column, text, change.old, change.new))
        if len(drawn) == count:
            break
    return drawn


def _is_python(source: Source, change: Change) -> bool:
    changed = source.text[: change.start] + change.new + source.text[change.stop :]
    try:
        return ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source.text))
    except SyntaxError:
        return False


def cover(coverage: Path, tests: Path) -> None:
    """Run the suite once with its coverage by test, that of child processes too."""
    settings = coverage.with_suffix(".rc")
    settings.write_text(
        f"[run]\nbranch = True\nsource_pkgs = gatedrnn\ndata_file = {coverage}\npatch = subprocess\n"
        "context = ${PYTEST_CURRENT_TEST-}\n"  # of the children: a test's name is in their environment
    )
    options = [
        "-p",
        "pytest_cov.plugin",
        "-n",
        "2",
        "--cov=gatedrnn",
        f"--cov-config={settings}",
        "--cov-context=test",
        "--cov-report=",
        "-q",
    ]
    subprocess.run(_pytest(*options), cwd=tests.parent, env=_environment(tests.parent), check=False)


def contexts(coverage: Path) -> Contexts:
    """The tests that run each line."""
    from coverage import CoverageData

    data = CoverageData(str(coverage))
    data.read()
    tests_of_lines: Contexts = {}
    for measured in data.measured_files():
        file = PACKAGE + measured.partition(PACKAGE)[2]
        names = data.contexts_by_lineno(measured)
        tests_of_lines[file] = {str(line): sorted({_test(name) for name in of} - {""}) for line, of in names.items()}
    return tests_of_lines


def _test(context: str) -> str:
    """A test's id, without the phase that a plugin or the environment appends."""
    return context.split("|")[0].split(" (")[0]


def chosen_tests(mutant: Mutant, covered: Contexts, root: Path) -> list[str]:
    """The tests that meet a mutant's line, one of each function first, then the next of each."""
    meet = covered.get(mutant.file, {}).get(str(mutant.line), [])
    if not meet and COMPILED.match(mutant.file):
        compiled = [path for folder in TESTS_OF_COMPILED for path in sorted((root / folder).rglob("test_*.py"))]
        return [str(path.relative_to(root)) for path in compiled]
    return one_of_each_first(meet)[:FIRST_TESTS]


def one_of_each_first(tests: Iterable[str]) -> list[str]:
    """The first case of each function, then the second of each."""
    by_function = defaultdict(list)
    for test in tests:
        by_function[test.partition("[")[0]].append(test)
    return [test for round in zip_longest(*by_function.values()) for test in round if test is not None]


def run(mutants: Sequence[Mutant], covered: Contexts, tests: Path, killed: Path, jobs: int) -> None:
    """Find the test that sees each mutant; written after every one, and resumed where it stopped."""
    seen: dict[str, str | None] = json.loads(killed.read_text()) if killed.exists() else {}  # None: by no test of all
    root, free = tests.parent, SimpleQueue[Path]()
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "0"
        shutil.copytree(root, tree, ignore=shutil.ignore_patterns(".git", ".venv*", "node_modules", "_build", "runs"))
        there = collected(tree)
        free.put(tree)
        for job in range(1, jobs):
            free.put(Path(shutil.copytree(tree, Path(scratch) / str(job))))

        def test_one(mutant: Mutant) -> None:
            tree = free.get()
            try:
                asked = [test for test in chosen_tests(mutant, covered, root) if test in there or "::" not in test]
                seen[str(mutant.number)] = first_failure([mutant], tree, asked, "-x") if asked else ""
            finally:
                free.put(tree)
            killed.write_text(json.dumps(seen, indent=0))
            print(f"{mutant.number} {mutant.file}:{mutant.line}: {seen[str(mutant.number)] or 'left'}", flush=True)

        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(test_one, [m for m in mutants if str(m.number) not in seen]))
        left = [m for m in mutants if seen[str(m.number)] == ""]
        tree = free.get()
        for group in [left[i : i + TOGETHER] for i in range(0, len(left), TOGETHER)]:
            failed = failures(group, tree, [], "-n", str(jobs), "--dist", "loadfile")
            print(len(group), "together:", len(failed), "tests fail", flush=True)
            known = one_of_each_first(test for test in failed if test in there)
            seen |= dict.fromkeys([str(mutant.number) for mutant in group])
            seen |= {str(mutant.number): test for mutant, test in by_whom(group, tree, known)} if failed else {}
            killed.write_text(json.dumps(seen, indent=0))


def by_whom(planted: Sequence[Mutant], tree: Path, tests: Sequence[str]) -> Iterator[tuple[Mutant, str]]:
    """The mutants of several that one of these tests sees, by halves: most are not seen, and need all tests to say
    so.
    """
    test = first_failure(planted, tree, tests, "-x")
    if test and len(planted) == 1:
        yield planted[0], test
    elif test:
        middle = len(planted) // 2
        yield from by_whom(planted[:middle], tree, tests)
        yield from by_whom(planted[middle:], tree, tests)


def collected(tree: Path) -> set[str]:
    """The ids of all fast tests; leaves the bytecode of what no mutant changes."""
    command = _pytest("-q", "--collect-only")
    environment = {name: value for name, value in _environment(tree).items() if name != "PYTHONDONTWRITEBYTECODE"}
    said = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=True).stdout
    return {line for line in said.splitlines() if "::" in line}


def first_failure(planted: Sequence[Mutant], tree: Path, tests: Sequence[str], *options: str) -> str:
    """The first test that fails with these mutants in a copy of the project, or ""."""
    return next(iter(failures(planted, tree, tests, *options)), "")


def failures(planted: Sequence[Mutant], tree: Path, tests: Sequence[str], *options: str) -> list[str]:
    """All tests that fail; those that need more time than all are given count too."""
    compiled = any(COMPILED.match(mutant.file) for mutant in planted)
    before = cache_of(tree, str(tree / SAVED))[1] if compiled else b""
    originals = {mutant.file: (tree / mutant.file).read_text(encoding="utf-8") for mutant in planted}
    for mutant in sorted(planted, key=lambda m: (m.file, -m.line, -m.column)):  # the last first: places stay
        path = tree / mutant.file
        path.write_text(mutant.planted(path.read_text(encoding="utf-8")), encoding="utf-8")
    kernels = unchanged_kernels(planted, tree, before) if compiled else None
    listed = tree / "tests.txt"
    listed.write_text("\n".join(tests))
    limits = "--timeout=600", "--timeout-method=thread"  # a signal does not end a compiled loop
    command = _pytest("-q", "--tb=no", "-rfE", *limits, *options, *([f"@{listed}"] if tests else []))
    environment = _environment(tree) | ({"NUMBA_CACHE_DIR": kernels} if kernels else {})
    try:
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=SECONDS)
        said = [
            line.split(" - ")[0].split(" ", 1)[1]
            for line in done.stdout.splitlines()
            if line.startswith(("FAILED ", "ERROR "))
        ]
        if not said and done.returncode:
            print(done.returncode, done.stdout[-600:], done.stderr[-300:], flush=True)
        return said or ([f"exit code {done.returncode}"] if done.returncode not in (0, 5) else [])
    except subprocess.TimeoutExpired:
        return ["no end"]
    finally:
        for file, text in originals.items():
            (tree / file).write_text(text, encoding="utf-8")
        if kernels:
            shutil.rmtree(kernels)


def unchanged_kernels(planted: Sequence[Mutant], tree: Path, before: bytes) -> str:
    """A cache of compiled kernels for a tree with these mutants: those of modules that import none of theirs.

    Args:
        before: the stamp of its sources without them.
    """
    kernels = tempfile.mkdtemp()
    paths = [path for path in (tree / PACKAGE).rglob("*.py") if COMPILED.match(str(path.relative_to(tree)))]
    sources = {module_of(str(path.relative_to(tree))): path.read_text(encoding="utf-8") for path in paths}
    changed = {module_of(mutant.file) for mutant in planted if COMPILED.match(mutant.file)}
    while more := {name for name, text in sources.items() if name not in changed and imported(text) & changed}:
        changed |= more
    there, stamp = cache_of(tree, kernels)
    if stamp:
        Path(there).mkdir()
        for path in (tree / SAVED / Path(there).name).glob("*.compiled"):
            found = path.read_bytes()
            others = not path.name.startswith(tuple(f"{name}." for name in changed))
            if others and found[2 * _DIGEST : 3 * _DIGEST] == before:
                (Path(there) / path.name).write_bytes(packed(path.name, stamp, found[3 * _DIGEST :]))
    return kernels


def cache_of(tree: Path, kernels: str) -> tuple[str, bytes]:
    """The folder in which a tree keeps kernels in that folder, and the stamp of its sources; empty if it cannot be
    imported.
    """
    asked = "from gatedrnn.kernels.cpu import compile as c; print(c.folders()[0], c.source_hash().hex())"
    environment = _environment(tree) | {"NUMBA_CACHE_DIR": kernels}
    said = subprocess.run([sys.executable, "-c", asked], env=environment, capture_output=True, text=True).stdout.split()
    return (said[0], bytes.fromhex(said[1])) if said else ("", b"")


def module_of(file: str) -> str:
    """The module of a file, without the name of the package, by which compiled functions are saved."""
    return file.removeprefix(f"{PACKAGE}/").removesuffix(".py").replace("/", ".")


def imported(source: str) -> set[str]:
    """The modules of the package that a source imports, and what it imports from them."""
    froms = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom))
    names = set[str]()
    for module, aliases in ((node.module.removeprefix("gatedrnn."), node.names) for node in froms if node.module):
        names |= {module, *(f"{module}.{alias.name}" for alias in aliases)}
    return names


def _pytest(*options: str) -> list[str]:
    """The command of pytest, without the kernels that all tests together need."""
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:kernels_ahead", *options]


def _environment(root: Path) -> dict[str, str]:
    return os.environ | {
        "PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1",
        "NUMBA_CACHE_DIR": str(root / SAVED),
    }  # fmt: skip


def table(mutants: Sequence[Mutant], old: dict[str, str | None], new: dict[str, str | None]) -> Iterator[str]:
    """Markdown: the counts by package, then every mutant that one of the suites does not see."""
    packages = sorted({package(m) for m in mutants})
    yield "| package | mutants | killed by both | old only | new only | by none |\n|---|---|---|---|---|---|"
    for name in [*packages, "all"]:
        of = [str(m.number) for m in mutants if name in (package(m), "all")]
        seen = [(bool(old.get(n)), bool(new[n])) for n in of]
        counts = (seen.count(kind) for kind in ((True, True), (True, False), (False, True), (False, False)))
        yield f"| {name} | {len(of)} | {' | '.join(map(str, counts))} |"
    yield "\n| mutant | place | was | is | old suite | new suite |\n|---|---|---|---|---|---|"
    for m in mutants:
        seen_by = [records.get(str(m.number)) for records in (old, new)]
        if not all(seen_by):
            was, now = (" ".join(text.split()).replace("|", "\\|") for text in (m.old, m.new))
            names = [(name or "–").split("::")[-1].partition("[")[0] for name in seen_by]
            place = f"{m.file.removeprefix(PACKAGE + '/')}:{m.line}"
            yield f"| {m.number} | {place} | `{was}` | `{now}` | {' | '.join(names)} |"


def package(mutant: Mutant) -> str:
    """The folder, or the file, directly below the package."""
    return mutant.file.removeprefix(PACKAGE + "/").split("/")[0]


def read(path: Path) -> list[Mutant]:
    """Read what `draw` wrote."""
    return [Mutant(*fields.values()) for fields in json.loads(path.read_text())]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    words: dict[str, tuple[str, ...]] = {
        "draw": ("mutants",), "cover": ("coverage",), "run": ("mutants", "coverage", "killed"),
        "table": ("mutants", "old", "new"),
    }  # fmt: skip
    for name, places in words.items():
        command = commands.add_parser(name)
        for place in places:
            command.add_argument(place, type=Path)
        if name in ("cover", "run"):
            command.add_argument("--tests", type=Path, default=ROOT / "tests")
            command.add_argument("--jobs", type=int, default=2)
    options: Any = parser.parse_args(arguments)
    match options.command:
        case "draw":
            options.mutants.write_text(json.dumps([m._asdict() for m in draw()], indent=0, ensure_ascii=False) + "\n")
        case "cover":
            cover(options.coverage.resolve(), options.tests.resolve())
        case "run":
            run(
                read(options.mutants), contexts(options.coverage), options.tests.resolve(), options.killed, options.jobs
            )
        case "table":
            print(
                *table(read(options.mutants), *(json.loads(p.read_text()) for p in (options.old, options.new))),
                sep="\n",
            )


if __name__ == "__main__":
    main()
