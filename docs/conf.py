"""Settings of the documentation; `make docs` builds it."""

import re

from gatedrnn import __version__

project = "gatedrnn"
author = copyright = "the gatedrnn contributors"
release = __version__
html_title = f"gatedrnn {__version__}"
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["tables.css"]
html_show_sphinx = False
html_theme_options = {"top_of_page_buttons": []}

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # code blocks run in tests/test_docs.py

autodoc_inherit_docstrings = False
napoleon_custom_sections = [("Inputs", "params_style"), ("Outputs", "params_style")]
default_role = "code"  # docstrings put code between single backticks
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"


def as_restructured_text(app, what, name, obj, options, lines):
    """Docstrings are plain text that reads well in a terminal; this is the markup that Sphinx needs."""
    text = "\n".join(lines)
    text = re.sub(r"(?<=\w`)(?=\w)", r"\\ ", text)  # the plural of code: `Error`s
    text = re.sub(r"\|(\w+)\|", r"\\|\1\\|", text)  # a magnitude: |a|
    text = re.sub(r"^(Inputs|Outputs): [\w, ]+$", r"\1:", text, flags=re.M)  # a section, as torch.nn's docs have it
    text = re.sub(r"(?<=\w):(?=\n\n {4})", "::", text)  # code after a colon
    paragraphs = [equations(paragraph) for paragraph in text.split("\n\n")]
    lines[:] = "\n\n".join(paragraphs).split("\n")


def equations(paragraph: str) -> str:
    """A paragraph as a literal block if each of its lines is an equation."""
    rows = paragraph.split("\n")
    if not all(re.match(r" *[\w', ]+ = ", row) for row in rows) or paragraph.endswith("."):  # a sentence is none
        return paragraph
    indent = " " * (len(paragraph) - len(paragraph.lstrip()))
    return "\n".join([f"{indent}::", "", *(f"    {row}" for row in rows)])


def arguments_that_exist(app, what, name, obj, options, signature, result):
    """A signature without `**unknown`, which only refuses: it lets a type checker name a misspelt argument."""
    return signature and signature.replace(", **unknown", ""), result


def setup(app):
    app.connect("autodoc-process-signature", arguments_that_exist)
    app.connect("autodoc-process-docstring", as_restructured_text, priority=400)  # before napoleon reads the sections
