"""Imports and compiled kernels are no part of what a test takes."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def trained_before(first_training):
    pass
