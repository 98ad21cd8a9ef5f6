"""Errors that a user can mend."""


class DataError(Exception):
    """The data or a setting about it cannot be used; the message names the thing, the rule and what to do."""
