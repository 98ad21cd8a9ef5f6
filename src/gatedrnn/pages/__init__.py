"""What all reports share: one HTML file that asks no network for anything."""

from gatedrnn.pages.page import COLOURS, FONT, dress, environment_rows, write_page

__all__ = ["COLOURS", "FONT", "dress", "environment_rows", "write_page"]
