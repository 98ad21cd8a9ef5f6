"""Figures of the course as SVG within the page, as a Sphinx extension: letters in the page's font, lines in its colour.

The kernel that runs the notebooks draws them by a configuration of its own. Each needs a sentence of alternative text,
`:mystnb: {image: {alt: "…"}}` in its cell; a figure without one is an error.
"""

import itertools
import os
import re
from html import escape
from pathlib import Path

INK = "#010203"
"""The colour of text and axes in a drawn figure, in whose place the page's stands."""
DRAWN = {
    "svg.fonttype": "none",  # text stays text: the reader's fonts have the letters of every language
    "svg.hashsalt": "gatedrnn",  # equal figures are equal files
    "savefig.transparent": True,
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "legend.facecolor"), "none"),
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
}


def configure(folder: Path) -> None:
    """Write the configuration of the kernel, which it reads from the folder that IPYTHONDIR names."""
    file = folder / "profile_default" / "ipython_kernel_config.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f'c.InlineBackend.figure_formats = {{"svg"}}\nc.InlineBackend.rc = {DRAWN!r}\n')
    os.environ["IPYTHONDIR"] = str(folder)


def inline(svg: str, alternative: str, number: int) -> str:
    """A figure as an element of a page.

    Args:
        svg: the file that matplotlib wrote.
        alternative: what a reader hears who does not see it.
        number: of the figure in its page, which makes its names unique there.
    """
    svg = re.sub(r"^.*?(?=<svg)|<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(f"{INK}|#000000", "currentColor", svg)
    svg = re.sub(r'\b(id="|href="#|url\(#)', rf"\1figure{number}-", svg)
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(alternative)}"', 1)


def draw(app, doctree, page):
    """Put the figures of a notebook into its page."""
    from docutils import nodes  # here: `inline` is tested where no documentation is built
    from sphinx.errors import ExtensionError

    count = itertools.count(1)
    for image in [*doctree.findall(nodes.image)]:
        path = Path(app.srcdir, image["uri"])
        if path.suffix != ".svg" or "jupyter_execute" not in path.parts:
            continue
        if not image.get("alt"):
            raise ExtensionError(f"{page}: a figure has no alternative text")
        drawn = inline(path.read_text(encoding="utf-8"), image["alt"], next(count))
        image.replace_self(nodes.raw("", f'<figure class="drawn">{drawn}</figure>', format="html"))


def setup(app):
    configure(Path(app.confdir) / "_build" / f"ipython-{app.config.language}")
    app.connect("doctree-resolved", draw)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
