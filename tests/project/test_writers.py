"""Nothing is written under its final name: every writer goes through what renames it when it is whole."""

import ast

from imports import parsed
from sources import modules

WRITERS = {
    "write_text", "write_bytes", "savefig", "savez", "savez_compressed", "write_table", "save_file", "save_pretrained",
    "to_csv", "to_parquet", "tofile",
}  # fmt: skip
SAVERS = {"onnx", "np", "torch"}
"""Modules whose `save` writes a file."""
WHOLE = {"written_beside", "written_together", "whole_or_removed", "written_whole"}
ELSEWHERE = {
    "gatedrnn.study.assembly": "the kernel's file of this process's memory",
    "gatedrnn.locks": "the file of a lock, which says who holds it",
    "gatedrnn.training.folder": "a log that grows by lines, and its copy in a checkpoint",
    "gatedrnn.tasks.language.objective": "in the folder of a checkpoint",
    "gatedrnn.training.sharing": "in the folder of a checkpoint",
    "gatedrnn.training.outcomes": "into memory",
    "gatedrnn.data.frames": "into memory, for a sum; and a caller's data in a folder of temporary files",
    "gatedrnn.data.stream": "in the folder of a cache's entry",
    "gatedrnn.laws.modes": "into memory",
    "gatedrnn.kernels.cpu.store": "a cache of its own, under another name first",
}
"""Modules that write otherwise, and where."""


def is_writer(call):
    name, owner = getattr(call.func, "attr", ""), getattr(getattr(call.func, "value", None), "id", "")
    modes = [a.value for a in (*call.args, *(k.value for k in call.keywords)) if isinstance(a, ast.Constant)]
    opens = (name or getattr(call.func, "id", "")) == "open" and {"w", "wb", "a", "ab", "x", "xb"} & {*map(str, modes)}
    return name in WRITERS or getattr(call.func, "id", "") in WRITERS or (name == "save" and owner in SAVERS) or opens


def written_in_place(sources):
    """Calls that write a file outside a `with` block of those that keep it whole."""
    found = []
    for module, source in sources.items():
        safe = set()
        for node in ast.walk(parsed(source)):
            if isinstance(node, ast.With):
                calls = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
                if any(getattr(call.func, "id", "") in WHOLE for call in calls):
                    safe |= {id(inner) for inner in ast.walk(node)}
        found += [
            f"{module}:{node.lineno}" for node in ast.walk(parsed(source))
            if isinstance(node, ast.Call) and is_writer(node) and id(node) not in safe
        ]  # fmt: skip
    return found


def test_every_file_is_written_under_another_name_first():
    found = written_in_place(modules())
    assert [place for place in found if place.split(":")[0] not in ELSEWHERE] == []
    assert {place.split(":")[0] for place in found} == set(ELSEWHERE)
    wrong = {"gatedrnn.a": "path.write_text('x')\nopen(path, 'w')\nwith naming(path):\n    onnx.save(graph, path)"}
    right = {"gatedrnn.b": "with written_beside(path) as new:\n    onnx.save(graph, new)\nopen(path)\nrun.save(path)"}
    assert len(written_in_place(wrong)) == 3 and written_in_place(right) == []
