"""Settings of the documentation; `make docs` builds it."""

import hashlib
import os
import re
import sys
from pathlib import Path
from textwrap import dedent

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml

import gatedrnn
from gatedrnn import __version__

sys.path.insert(0, str(Path(__file__).parent))  # where our extensions lie
from names import INVENTORIES, OUTSIDE

project = "gatedrnn"
author = copyright = "the gatedrnn contributors"
release = __version__
html_title = f"gatedrnn {__version__}"
html_theme = "furo"
locale_dirs = [str(Path(__file__).parent / "locale")]
html_static_path = ["static"]
html_css_files = ["pages.css"]
html_js_files = ["pages.js"]
html_search_scorer = str(Path(__file__).parent / "static" / "search.js")
html_show_sphinx = False
html_math_renderer = "mathml"
html_theme_options = {"top_of_page_buttons": []}

extensions = [
    "myst_nb",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.intersphinx",
    "names",
    "cell_pages",
    "lists",
    "course",
    "figures",
    "pictures.directive",
]
exclude_patterns = ["_build", "learn/ko", "jupyter_execute"]  # the Korean course is a site of its own
copybutton_selector = "div.highlight-python pre, div.highlight-ipython3 pre, div.highlight-bash pre, div.cell_input pre"
intersphinx_mapping = {name: (site, str(INVENTORIES / f"{name}.txt")) for name, site in OUTSIDE.items()}
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "dollarmath"]


def made_of():
    """A digest of what the outputs of the course follow from, beside its code: the library's, and the data that it
    finds.
    """
    digest = hashlib.sha256(os.environ.get("GATEDRNN_DATA", "").encode())
    for path in sorted(Path(gatedrnn.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


# The notebooks of the course run once for both languages. Code blocks of other pages run in tests/project/test_docs.py.
nb_execution_mode = "cache"
nb_execution_cache_path = str(Path(__file__).parent / "_build" / f"notebooks-{made_of()}")  # of Korean: see setup
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_merge_streams = True  # what a cell prints, line by line, is one output
nb_output_stderr = "remove"  # notices of kernels that are compiled for the machine

autodoc_inherit_docstrings = False
napoleon_custom_sections = [(name, "params_style") for name in ("Inputs", "Outputs", "State", "Weights")]
napoleon_custom_sections += ["Initialisation", "Source"]
default_role = "code"  # docstrings put code between single backticks
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"


RETURNS = re.compile(r"^Returns:\n(?P<said>(?: {4}.*\n?|\n(?= {4}))+)", re.M)
"""A section as a sentence: napoleon would read what stands before its first colon as a type."""


def as_restructured_text(app, what, name, obj, options, lines):
    """Docstrings are plain text that reads well in a terminal; this is the markup that Sphinx needs."""
    text = "\n".join(lines)
    text = re.sub(r"(?<=\w`)(?=\w)", r"\\ ", text)  # the plural of code: `Error`s
    text = re.sub(r"\|(\w+)\|", r"\\|\1\\|", text)  # a magnitude: |a|
    text = re.sub(r"^(Inputs|Outputs): [\w, ]+$", r"\1:", text, flags=re.M)  # a section, as torch.nn's docs have it
    text = re.sub(r"(?<=\w):(?=\n\n {4})", "::", text)  # code after a colon
    if text.startswith("Alias for field number"):  # Python's own words for a field that has none
        text = ""
    text = RETURNS.sub(lambda found: ":returns: " + dedent(found["said"]).replace("\n", "\n    "), text)
    if what in ("attribute", "data", "property"):
        text = f"\n{text}"  # else what stands before a colon in its first line is read as a type
    paragraphs = [equations(paragraph) for paragraph in text.split("\n\n")]
    lines[:] = "\n\n".join(paragraphs).split("\n")


def equations(paragraph: str) -> str:
    """A paragraph as a literal block if each of its lines is an equation."""
    rows = paragraph.split("\n")
    if not all(re.match(r" *[\w', ]+ = ", row) for row in rows) or paragraph.endswith("."):  # a sentence is none
        return paragraph
    indent = " " * (len(paragraph) - len(paragraph.lstrip()))
    return "\n".join([f"{indent}::", "", *(f"    {row}" for row in rows)])


def inline_formula(translator, node):
    translator.body.append(tex2mathml(node.astext()))
    raise SkipNode


def formula(translator, node):
    translator.body.append(tex2mathml(node.astext(), as_block=True))
    raise SkipNode


def of_language(app, config):
    """The two sites are built side by side, so that what they keep is apart."""
    if config.language == "ko":
        config.html_title = "gatedrnn 강좌"
        config.nb_execution_cache_path += "-ko"


def setup(app):
    app.connect("config-inited", of_language, priority=100)
    # Formulas that a browser draws and reads aloud by itself; Sphinx's own way asks a server for MathJax.
    app.add_html_math_renderer("mathml", (inline_formula, None), (formula, None))
    app.connect("autodoc-process-docstring", as_restructured_text, priority=400)  # before napoleon reads the sections
