"""The laws, asked of a subject: what holds, what fails and at which smallest case, what cannot be asked."""

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import TypeVar
from unittest import SkipTest

import torch

from gatedrnn.laws.adapters import Askable, subject_of
from gatedrnn.laws.capabilities import abilities_of, batch_axis, in_double
from gatedrnn.laws.case import NO_FAULT, TOLERANCES, WIDTHS, Fault, LawCase, worst_of
from gatedrnn.laws.errors import InvalidSubject, NotApplicable, TimeLimitExceeded, summary, unknown
from gatedrnn.laws.laws import FIRST, GENERATION, LAWS, PRECISION, CaseSizes, Law
from gatedrnn.laws.report import Outcome, Report, Verdict
from gatedrnn.laws.script import script_of
from gatedrnn.laws.subject import Subject, evaluation_mode
from gatedrnn.laws.time_limit import time_limit

T = TypeVar("T")
SEEDS, MIN_FAILURES = (1, 2, 3, 4, 5), 2
"""Seeds of inputs. A law holds where it holds on the first of them. Where it does not, all are drawn, and it fails
where it fails on two: a value beside a threshold, which rounding moves across it, accuses no sound layer."""
LENGTHS = (10, 100, 1000)
_MIN_BEGIN = 30
"""Seconds that a module may take, at least, to be made and called for the first time."""
_UNMET_NEEDS = {
    "state": "it is run in both directions, or carries no state",
    "mask": "it takes no mask",
    "packed": "it takes no PackedSequence",
    "resets": "it takes neither resets nor boundaries between documents",
    "axis": "its state does not begin at zeros, or is not a tensor with one row for each row of the batch",
    "one direction": "it runs in both directions",
    "copies": "it cannot be copied",
    "pickle": "it cannot be pickled",
    "parameters": "it has no parameters",
    "no dropout": "it drops out, or normalises over the batch, in training mode",
    "plain state": "its state is an object of its own, which a call may update",
    "reorder": "its state has no reorder_cache",
    "generate": "it has no generate",
    "prefill": "its generate reads no prompt in chunks",
}
"""Why a law cannot be asked, by what it needs."""


def check(
    subject: Askable, *, input_size: int = 4, hidden_size: int = 6, seconds: float = 60,
    only: Sequence[str] | None = None, draws: int = 2, ends_process: bool = False,
) -> Report:  # fmt: skip
    """Ask all laws of a recurrent module: whether it gives the same however the same sequences are fed to it.

    Args:
        subject: a module; a class or function that makes one; a word (`transformers:mamba2`, `PACKAGE.MODULE:CLASS`,
            `FILE.py:FUNCTION`); or a `Subject`, which says how it is called.
        input_size: elements of an input, for what makes a module and asks for them.
        hidden_size: elements of the state, likewise.
        seconds: the time that one law may take; a law that takes longer is stopped and counts as a failure.
        only: names of laws; all if it is None.
        draws: inputs that are drawn for each law; more where it fails.
        ends_process: end the process where a call does not come back even then; for command lines.

    Returns:
        what was found of each law; prints as a table.

    Raises:
        InvalidSubject: it is not recurrent, cannot be made from these sizes, needs a GPU, or has weights to download.

    Example:
        >>> import torch
        >>> from gatedrnn.laws.suite import check
        >>> report = check(torch.nn.GRU, input_size=3, hidden_size=4)
        >>> report.failures
        []
        >>> report.raise_if_failed()
    """
    own_title = subject.name if isinstance(subject, Subject) else getattr(subject, "__name__", type(subject).__name__)
    title = subject if isinstance(subject, str) else own_title
    # Laws ask for gradients, whatever mode the caller is in; warnings of others' modules are not ours to show.
    with torch.inference_mode(False), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first_call = partial(_first_call, title, max(seconds, _MIN_BEGIN), ends_process)
        single = first_call(lambda: subject_of(subject, input_size=input_size, hidden_size=hidden_size))
        with evaluation_mode(single.module):
            first_call(lambda: _check_call(single))
            suite = first_call(lambda: _Suite(single, in_double(single), seconds, max(1, draws), ends_process))
            outcomes = tuple(suite.outcomes(_requested_laws(single, only)))
    return Report(single.name, single.entry, str(suite.double.dtype).removeprefix("torch."), outcomes)


def _first_call(title: str, seconds: float, ends_process: bool, call: Callable[[], T]) -> T:
    """Call what comes before any law, and refuse a subject that takes too long."""
    try:
        with time_limit(seconds, what=f"{title}: its first call", ends_process=ends_process):
            return call()
    except TimeLimitExceeded:
        raise InvalidSubject(f"{title} takes more than {seconds:g} s for its first call") from None


def _check_call(subject: Subject) -> None:
    """Check that a subject returns outputs and a state, in a dtype of which the tolerances are known."""
    if subject.dtype not in TOLERANCES:
        raise InvalidSubject(
            f"{subject.name} is in {subject.dtype}: verify asks in float32 or float64, so pass its .float()"
        )
    try:
        with torch.no_grad():
            result = subject.run_of()(subject.draw(2, 3, 0))
    except Exception:  # which the first law says
        return
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[0], torch.Tensor):
        raise InvalidSubject(f"the call of {subject.name} must return (outputs, state), got {type(result).__name__}")
    if result[0].shape[:2] != (2, 3):
        raise InvalidSubject(f"{subject.name} must return outputs (batch, time, …), got shape {tuple(result[0].shape)}")


def _requested_laws(subject: Subject, only: Sequence[str] | None) -> Sequence[str] | None:
    """Return the laws that are named; pytest's spelling of a name is one too."""
    if only is None:
        return None
    available = [*(name for name, _, _ in _named_laws(subject)), PRECISION]
    by_spelling = {in_one_word(name): name for name in available} | {name: name for name in available}
    requested = (only,) if isinstance(only, str) else only
    for name in requested:
        if name not in by_spelling:
            raise unknown("law", name, available)
    return [by_spelling[name] for name in requested]


def in_one_word(law: str) -> str:
    """Return the name of a law as pytest shows it.

    Example:
        >>> in_one_word("step by step, gradients")
        'step-by-step-gradients'
    """
    return law.replace(" ", "-").replace(",", "")


class LawTest:
    """One law of one subject, as a test: call it."""

    def __init__(self, subject: Subject, law: str, seconds: float) -> None:
        self.subject, self.law, self.seconds = subject, law, seconds
        self.__name__ = in_one_word(law)

    def __call__(self) -> None:
        """Ask the law.

        Raises:
            LawsBroken: the law does not hold; with the smallest case and the script that shows it.
            unittest.SkipTest: it cannot be asked, or the module's library does not support the use.
        """
        (outcome,) = check(self.subject, seconds=self.seconds, only=(self.law,)).outcomes
        if outcome.verdict in ("not applicable", "noted"):
            raise SkipTest(outcome.reason)
        outcome.raise_if_broken()


def cases(subject: Askable, *, input_size: int = 4, hidden_size: int = 6, seconds: float = 60) -> list[LawTest]:
    """Return all laws of a subject as tests, for `pytest.mark.parametrize`; arguments as those of `check`.

    Example:
        >>> import torch
        >>> from gatedrnn.laws.suite import cases
        >>> laws = cases(torch.nn.GRU)
        >>> laws[2].__name__
        'step-by-step'
        >>> laws[2]()
    """
    made = subject_of(subject, input_size=input_size, hidden_size=hidden_size)
    return [LawTest(made, name, seconds) for name in (*(name for name, _, _ in _named_laws(made)), PRECISION)]


def _named_laws(subject: Subject) -> list[tuple[str, Law, bool]]:
    """Return all laws by name, and whether gradients are compared."""
    laws = (*FIRST, *LAWS, *(GENERATION if subject.vocabulary else ()))
    return [
        (f"{law.name}, gradients" if gradients else law.name, law, gradients)
        for law in laws for gradients in ((False, True) if law.gradients else (False,))
    ]  # fmt: skip


class _Suite:
    """The laws of a subject, in float64 where all of it computes in float64."""

    def __init__(
        self, single: Subject, double: Subject, seconds: float, draws: int, ends_process: bool
    ) -> None:  # fmt: skip
        self.single, self.double, self.seconds, self.ends_process = single, double, seconds, ends_process
        self.draws = SEEDS[:draws]
        self.axis, self.until = batch_axis(double), 0.0
        self.abilities = abilities_of(double, self.axis)

    def outcomes(self, only: Sequence[str] | None) -> Iterator[Outcome]:
        blocked = ""
        for name, law, gradients in _named_laws(self.double):
            # Those of FIRST run in any case: without them the others cannot be judged.
            if only is not None and name not in only and law not in FIRST:
                continue
            why = blocked or self._unmet_need(law, gradients)
            outcome = Outcome(name, law.says, "not applicable", reason=why) if why else self._run(name, law, gradients)
            if law in FIRST and outcome.verdict != "holds" and not blocked:
                blocked = f"{law.name!r} fails, and nothing can be judged without it"
            if only is None or name in only:
                yield outcome
        if only is None or PRECISION in only:
            wide = self.single.dtype == torch.float64
            cause = "it is in float64" if wide else "it casts to float32 inside, or runs in no float64"
            reason = blocked or cause * (self.double is self.single)
            says = "In float32 the outputs of 10 steps are those of float64; errors of 100 and 1,000 are shown."
            empty = Outcome(PRECISION, says, "not applicable", reason=reason)
            yield empty if reason else self._with_time_limit(empty, partial(self._precision, empty))

    def _unmet_need(self, law: Law, gradients: bool) -> str:
        """Return why a law cannot be asked; empty where it can."""
        for need in law.needs:
            if need not in self.abilities:
                return _UNMET_NEEDS[need]
        if gradients and "plain state" not in self.abilities and "state" in law.needs:
            return "gradients through a cache, an object of its own, are not asked"
        if gradients and not self.double.parameters() and self.double.vocabulary:
            return "it has no parameters"
        return ""

    def _with_time_limit(self, outcome: Outcome, evaluate: Callable[[], Outcome]) -> Outcome:
        """Judge one law within its time."""
        try:
            what = f"{self.single.name}: {outcome.law!r}"
            with time_limit(self.seconds, what=what, ends_process=self.ends_process):
                return evaluate()
        except TimeLimitExceeded:
            reason = f"took more than {self.seconds:g} s (--seconds)"
            return replace(outcome, verdict="stopped", reason=reason)

    def _run(self, name: str, law: Law, gradients: bool) -> Outcome:
        """Ask one law, within its time."""
        subject = self.single if law.of_module else self.double  # the conversion to float64 made a copy already
        subject = subject.for_law((*law.needs, *(("training",) * gradients)))
        # Half of the time at most for the search of a smaller case: what was found must not be lost to the limit.
        self.until = time.monotonic() + self.seconds / 2
        outcome = Outcome(name, law.says, "holds")
        return self._with_time_limit(outcome, partial(self._evaluate, outcome, law, gradients, subject))

    def _evaluate(self, outcome: Outcome, law: Law, gradients: bool, subject: Subject) -> Outcome:
        """Judge one law at the usual sizes and at its lengths; where it fails, at smaller ones."""
        worst = NO_FAULT
        for sizes in sizes_of(subject, law):
            case = LawCase(subject, law, sizes, gradients, self.axis)
            try:
                faults = {seed: case.fault(seed) for seed in self.draws}
                if not all(fault.holds for fault in faults.values()):
                    faults |= {seed: case.fault(seed) for seed in SEEDS if seed not in faults}
            except NotApplicable as error:
                return replace(outcome, verdict="not applicable", reason=str(error))
            broken = [seed for seed, fault in faults.items() if not fault.holds]
            if len(broken) < MIN_FAILURES and not any(math.isinf(fault.error) for fault in faults.values()):
                worst = max(worst, *(fault for fault in faults.values() if fault.holds), key=lambda one: one.share)
                continue
            if case.chaotic(faults[broken[0]], broken[0]):
                reason = "it is chaotic here: a change of its inputs in their last digit grows as large"
                return replace(outcome, verdict="not applicable", reason=reason)
            seed, *others = *broken, *(other for other in faults if other not in broken)
            smallest, fault = case.smallest(faults[seed], seed, tuple(others), _smaller_widths(subject), self.until)
            note = subject.notes.get(law.name)
            return replace(
                outcome, verdict="noted" if note else "fails", error=fault.error, allowed=fault.allowed,
                reason=f"“{note.sentence}” ({note.place}); {fault.message}" if note else fault.message,
                width=smallest.subject.width, sizes=smallest.sizes,
                script=script_of(smallest.subject, law, smallest.sizes, smallest.arguments(), gradients, seed),
            )  # fmt: skip
        return replace(outcome, error=worst.error, allowed=worst.allowed)

    def _precision(self, outcome: Outcome) -> Outcome:
        """Compare float32 with float64 at several lengths."""
        faults, run = list[Fault](), self.double.run_of()
        try:
            # A copy of the float64 module: both have the same weights.
            narrow = self.single.run_of(deepcopy(self.double.module).float())
            for steps in LENGTHS:
                x = self.double.draw(2, steps, SEEDS[0])
                with torch.no_grad():
                    narrow_output, output = narrow(x.float() if x.is_floating_point() else x)[0], run(x)[0]
                faults.append(worst_of({"output": narrow_output}, {"output": output}, torch.float32))
        except Exception as error:  # of any kind: the module is not ours
            return replace(outcome, reason=f"in float32 it raises {summary(error)}")
        reason = "error at 10, 100 and 1,000 steps: " + ", ".join(f"{fault.error:.0e}" for fault in faults)
        first = faults[0]
        verdict: Verdict = "holds" if first.holds else "fails"
        return replace(outcome, verdict=verdict, error=first.error, allowed=first.allowed, reason=reason)


def _smaller_widths(subject: Subject) -> list[Subject]:
    """Return the subject in smaller widths, where it can be made."""
    found = []
    for width in WIDTHS if subject.remake is not None else ():
        try:
            assert subject.remake is not None
            found.append(in_double(subject.remake(width)).for_law(()))
        except Exception:  # a class may ask for other widths
            continue
    return found


def sizes_of(subject: Subject, law: Law) -> list[CaseSizes]:
    """Return the sizes at which a law is asked: chunks are longer than a block of the layer's own, too."""
    steps = max(12, 2 * subject.block + 8)
    flat = subject.vocabulary is not None and "resets" in law.needs  # documents stand in one row
    usual = CaseSizes(batch=1 if flat else 3, steps=steps, cut=steps // 2 - 1)
    return [CaseSizes(1, n, max(1, n // 3)) for n in law.lengths] or [usual]
