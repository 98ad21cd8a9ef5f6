"""The package's modules as syntax trees, each parsed once, and what they import."""

import ast
from functools import cache
from pathlib import Path

import gatedrnn

PACKAGE = Path(gatedrnn.__file__).parent
parsed = cache(ast.parse)


@cache
def modules():
    """Source by dotted name; a package goes by its folder's name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text(encoding="utf-8")
    return found


def run_at_import(tree):
    """The nodes of a module without bodies of functions, nor what only a type checker reads."""
    left = [tree]
    while left:
        node = left.pop()
        yield node
        for child in ast.iter_child_nodes(node):
            checked = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
            if not checked and not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                left.append(child)


def imports_of(module, sources, at_import=False):
    """The imports of a module, wherever it has them, in a function too, or by name; or those that run at import.

    Of other packages the first word. By name means an argument of `import_module`, or a string that is a module of the
    package, with a function after a colon as a lazy command has it.
    """
    tree, is_package = parsed(sources[module]), any(name.startswith(module + ".") for name in sources)
    for node in run_at_import(tree) if at_import else ast.walk(tree):
        targets = []
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            here = module.split(".")
            above = here[: len(here) - node.level + is_package] if node.level else []
            base = ".".join(filter(None, [*above, node.module]))
            # `from package import name`: a module of that name, or a name that the package's own file holds.
            targets = [f"{base}.{a.name}" if f"{base}.{a.name}" in sources else base for a in node.names]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "import_module":
            texts = [a.value for a in node.args if isinstance(a, ast.Constant)]
            targets = [text for text in texts if text not in sources]  # which is a string below
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not at_import:
            targets = [name for name in [node.value.split(":")[0]] if "." in name and name in sources]
        for target in targets:
            if target.split(".")[0] != "gatedrnn":
                yield target.split(".")[0]
            elif target != module:
                yield target


def import_graph(sources, at_import=False):
    """The imports of each module; at import, the packages above it too."""
    graph = {module: list(imports_of(module, sources, at_import)) for module in sources}
    above = {name: [parent for parent in [name.rpartition(".")[0]] if parent] for name in sources}
    return {name: [*found, *above[name]] for name, found in graph.items()} if at_import else graph


@cache
def package_graph(at_import=False):
    return import_graph(modules(), at_import)


def reached(module, graph):
    """The names that are imported with a module, by itself and through others."""
    found, left = set(), [module]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += graph.get(name, [])
    return found
