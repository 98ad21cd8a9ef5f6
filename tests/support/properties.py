"""Settings of properties: the same examples every time, nothing kept, as slow as a machine is."""

from functools import partial

from hypothesis import settings

few = partial(settings, deadline=None, derandomize=True, database=None)
