"""Names in code become links to the reference, ours and torch's, as a Sphinx extension.

`` `MinGRU` ``, `` `gatedrnn.linear_scan` `` and `` `nn.LSTM` `` in pages and docstrings lead to what they name. A name
that no reference has stays as it is.
"""

import re
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref

import gatedrnn
from gatedrnn.registry import CELLS

INVENTORIES = Path(__file__).parent / "inventories"
OUTSIDE = {
    "torch": "https://docs.pytorch.org/docs/stable/",
    "transformers": "https://huggingface.co/docs/transformers/main_classes/",
}
"""Sites whose names are linked; those that we use are listed in `inventories/`, so that a build needs no network."""
SHORT = {"nn": "torch.nn", "F": "torch.nn.functional", "PackedSequence": "torch.nn.utils.rnn.PackedSequence"}
"""Names as code has them after the usual imports."""
NAME = re.compile(r"(?P<path>[A-Za-z_]\w*(?:\.\w+)*)(?:\(\))?")


def whole(text: str) -> str | None:
    """The full name that a piece of code stands for, if it is a name of ours or of a library that we link to."""
    if not (found := NAME.fullmatch(text)):
        return None
    path = found["path"]
    if path in gatedrnn.__all__:
        return f"gatedrnn.{path}"
    first = path.partition(".")[0]
    if first in SHORT:
        return SHORT[first] + path[len(first) :]
    return path if first in ("gatedrnn", *OUTSIDE) else None


def link(app, doctree):
    """Mark the names of a page as references, which are resolved when all pages are read."""
    for code in [*doctree.findall(nodes.literal)]:
        above = code.parent
        if isinstance(above, nodes.reference | nodes.title | pending_xref) or not (target := whole(code.astext())):
            continue
        reference = pending_xref("", refdomain="py", reftype="obj", reftarget=target, refwarn=False)
        reference["refdoc"] = app.env.docname
        above.replace(code, reference)
        reference += code


def across(app, env, node, content):
    """Lead a name of ours from the Korean course to the reference, which is of the other site."""
    layer = node["reftarget"].removeprefix("gatedrnn.")
    cells = [name for name, each in CELLS.items() if layer in (each.layer.__name__, f"{each.layer.__name__}Cell")]
    if app.config.language == "ko" and cells:
        page = f"../../api/cells/{cells[0]}.html#{node['reftarget']}"
        return nodes.reference("", "", content, internal=False, refuri=page)
    return None


def setup(app):
    app.connect("doctree-read", link)
    app.connect("missing-reference", across)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
