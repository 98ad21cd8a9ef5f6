"""Forecasts of a table's series."""
