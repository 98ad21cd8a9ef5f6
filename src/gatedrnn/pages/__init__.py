"""The base of all reports: one HTML file that makes no network request."""

from gatedrnn.pages.page import COLOURS, FONT, GREY, apply_style, environment_rows, render, write_page
from gatedrnn.pages.words import plural, signed

__all__ = ["COLOURS", "FONT", "GREY", "apply_style", "environment_rows", "plural", "render", "signed", "write_page"]
