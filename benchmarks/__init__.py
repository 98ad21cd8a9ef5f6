"""Measurements of this project alone: other libraries, the family, torch's layers in place, whole models."""
