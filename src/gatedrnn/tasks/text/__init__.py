"""Texts with a class, several labels or a number each."""
