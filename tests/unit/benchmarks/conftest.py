"""Sections without the time that they take."""

from small_bench import small, timed_once

__all__ = ["small", "timed_once"]
