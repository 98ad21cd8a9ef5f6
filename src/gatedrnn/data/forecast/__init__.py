"""Forecasts: tables of series on a regular grid of times, windows of them, and the task made of them."""
