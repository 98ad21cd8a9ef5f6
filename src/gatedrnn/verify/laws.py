"""The laws of any recurrent module, with the cells of this library by their names and its errors."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from gatedrnn.errors import UsageError
from gatedrnn.laws import suite
from gatedrnn.laws.adapters import Askable, subject_of
from gatedrnn.laws.errors import InvalidSubject
from gatedrnn.laws.report import Report
from gatedrnn.laws.suite import LawTest
from gatedrnn.registry import CELLS

T = TypeVar("T")


def check(
    subject: Askable, *, input_size: int = 4, hidden_size: int = 6, seconds: float = 60,
    only: Sequence[str] | None = None, draws: int = 2, ends_process: bool = False,
) -> Report:  # fmt: skip
    """Ask all laws of a recurrent module: whether it gives the same however the same sequences are fed to it.

    Args:
        subject: a module; a class or function that makes one; a word (a cell, `transformers:mamba2`,
            `PACKAGE.MODULE:CLASS`, `FILE.py:FUNCTION`); or a `Subject`, which says how it is called.
        input_size: elements of an input, for what makes a module and asks for them.
        hidden_size: elements of the state, likewise.
        seconds: the time that one law may take; a law that takes longer is stopped and counts as a failure.
        only: names of laws; all if it is None.
        draws: inputs that are drawn for each law; more where it fails.
        ends_process: end the process where a call does not come back even then; for command lines.

    Returns:
        what was found of each law; prints as a table.

    Raises:
        UsageError: it is not recurrent, cannot be made from these sizes, needs a GPU, or has weights to download.

    Example:
        >>> import torch
        >>> from gatedrnn.verify import check
        >>> report = check(torch.nn.GRU, input_size=3, hidden_size=4)
        >>> report.failures
        []
        >>> report.raise_if_failed()
    """
    options = {"seconds": seconds, "only": only, "draws": draws, "ends_process": ends_process}
    return _with_cells(suite.check, subject, input_size, hidden_size, **options)


def cases(subject: Askable, *, input_size: int = 4, hidden_size: int = 6, seconds: float = 60) -> list[LawTest]:
    """Return all laws of a subject as tests, for `pytest.mark.parametrize`; arguments as those of `check`.

    Example:
        >>> import torch
        >>> from gatedrnn.verify import cases
        >>> laws = cases(torch.nn.GRU)
        >>> laws[2].__name__
        'step-by-step'
        >>> laws[2]()
    """
    return _with_cells(suite.cases, subject, input_size, hidden_size, seconds=seconds)


def _with_cells(
    function: Callable[..., T], subject: Askable, input_size: int, hidden_size: int, **options: object
) -> T:  # fmt: skip
    """Call a function of the laws with the layer that a cell's name stands for, and raise its errors as a command's."""
    try:
        if isinstance(subject, str) and subject in CELLS:
            subject = subject_of(CELLS[subject].layer, input_size=input_size, hidden_size=hidden_size, name=subject)
        return function(subject, input_size=input_size, hidden_size=hidden_size, **options)
    except InvalidSubject as error:
        raise UsageError(str(error)) from error
