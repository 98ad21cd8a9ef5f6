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
default_role = "code"  # docstrings put code between single backticks
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"


def as_restructured_text(app, what, name, obj, options, lines):
    """Docstrings are plain text: they write the plural of code as `Error`s, and |a| for a magnitude."""
    for index, line in enumerate(lines):
        lines[index] = re.sub(r"\|(\w+)\|", r"\\|\1\\|", re.sub(r"(?<=\w`)(?=\w)", r"\\ ", line))


def setup(app):
    app.connect("autodoc-process-docstring", as_restructured_text)
