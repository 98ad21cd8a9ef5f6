"""Every exception of the laws, and words for those of others."""

from collections.abc import Iterable
from difflib import get_close_matches

_MAX_REASON = 400
"""Characters at most of what another library's error says."""
_MAX_NAMES = 60
"""Names at most that a message lists."""


class InvalidSubject(ValueError):
    """A thing is no recurrent module that laws can be asked of, or cannot be made; the message says what to do."""


class LawsBroken(AssertionError):
    """A recurrent module breaks a law."""


class NotApplicable(Exception):
    """A law cannot be asked: the module refuses the use, or carries no gradient."""


class TimeLimitExceeded(BaseException):
    """Raised in code that has run beyond its limit; no `except Exception` of that code keeps it."""


def summary(error: BaseException) -> str:
    """Return the class and the message of an error in one line.

    Example:
        >>> summary(ValueError("wrong field:\\n    cell"))
        'ValueError: wrong field: cell'
    """
    return f"{type(error).__name__}: {' '.join(str(error).split())[:_MAX_REASON]}".removesuffix(": ")


def unknown(what: str, name: str, names: Iterable[str]) -> InvalidSubject:
    """Return the error of a name that does not exist, with the nearest that does, or all of a few.

    Example:
        >>> str(unknown("law", "packd", ["packed", "resets"]))
        "there is no law 'packd'; did you mean 'packed'?"
    """
    names = list(names)
    near = get_close_matches(name, names, n=1)
    listed = f"there are {', '.join(names)}" if len(names) <= _MAX_NAMES else f"there are {len(names)} others"
    return InvalidSubject(f"there is no {what} {name!r}; " + (f"did you mean {near[0]!r}?" if near else listed))
