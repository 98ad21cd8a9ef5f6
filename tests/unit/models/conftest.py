"""A quiet transformers, so that a failing test shows its own words."""

import pytest
from transformers import Trainer  # noqa: F401  imported here, its seconds are no test's
from transformers.utils import logging


@pytest.fixture(autouse=True, scope="session")
def quiet_transformers():
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    yield
    logging.set_verbosity(before)
    logging.enable_progress_bar()
