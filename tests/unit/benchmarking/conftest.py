"""Sections without the time that they take."""

from small_bench import timed_once

__all__ = ["timed_once"]
