"""The lists of cells in the API reference, as a Sphinx extension: they follow from the registry.

A line `.. cells:: layers` becomes the directives of all layers, `.. cells:: steps` those of all single-step modules.
"""

import re

from gatedrnn.registry import CELLS

LISTS = {
    "layers": [record.layer.__name__ for record in CELLS.values()],
    "steps": [record.single_step.__name__ for record in CELLS.values() if record.single_step],
}


def listed(text: str) -> str:
    """A page with the directives in the place of those lines."""
    return re.sub(
        r"^\.\. cells:: (\w+)$", lambda found: "\n".join(f".. autoclass:: {name}" for name in LISTS[found[1]]), text,
        flags=re.M,
    )  # fmt: skip


def read(app, name, content):
    """Complete a page of the reference."""
    content[0] = listed(content[0])


def setup(app):
    app.connect("source-read", read)
    return {"parallel_read_safe": True}
