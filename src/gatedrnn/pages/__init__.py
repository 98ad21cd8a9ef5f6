"""The base of all reports: one HTML file that makes no network request."""

from gatedrnn.pages.page import COLOURS, FONT, GREY, apply_style, environment_rows, plural, render, signed, write_page

__all__ = ["COLOURS", "FONT", "GREY", "apply_style", "environment_rows", "plural", "render", "signed", "write_page"]
