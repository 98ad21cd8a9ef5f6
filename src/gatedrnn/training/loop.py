"""The training loop: one run from its settings to a result, resumable at any step to the same bits."""

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import set_seed
from numpy.random import SeedSequence
from torch import Tensor, nn

from gatedrnn.data import Batch, TaskData, load_task, tasks_kept, tokens_in
from gatedrnn.data.batches import StepBatches
from gatedrnn.errors import DataError, Interrupted, NonFiniteLoss, UsageError
from gatedrnn.locks import sole_writer
from gatedrnn.machine import processor
from gatedrnn.models.modeling import GatedRNNPreTrainedModel
from gatedrnn.models.opening import open_model
from gatedrnn.models.structure import count_parameters, describe_structure
from gatedrnn.processes import SignalFlag, StopFlag, check_cores, set_by_signals
from gatedrnn.progress import Progress
from gatedrnn.records import commit, remove_folder
from gatedrnn.training import checkpoint
from gatedrnn.training.callbacks import Callbacks, StepRecord, ValidationRecord, told, tracked
from gatedrnn.training.checkpoint import AVERAGE, BEST
from gatedrnn.training.evaluate import evaluate
from gatedrnn.training.folder import MetricsLog, RunFolder
from gatedrnn.training.metrics import Evaluation
from gatedrnn.training.model import build_model, model_card, write_model
from gatedrnn.training.objective import rows_of
from gatedrnn.training.optimise import (
    MovingAverage,
    Plateau,
    Weights,
    denormals_as_zero,
    learning_rate_at,
    put_into,
    weights_of,
)
from gatedrnn.training.resources import check_compiler, check_room, compile_kernels
from gatedrnn.training.result import PlainPart, RunMeasured, RunResult
from gatedrnn.training.settings import RunSettings
from gatedrnn.training.sharing import Sharing
from gatedrnn.training.task import Ending, Further, Trained, task_named

LOG = logging.getLogger("gatedrnn")


OnStep = Callable[[Progress], None]
FURTHER = "refit"
"""The folder in a run's folder that holds the folders of its further trainings, until it has ended."""


@dataclass
class RunState:
    """The values that a checkpoint carries beside weights, optimizer and random numbers."""

    step: int = 0
    best_rank: list[float] = field(default_factory=lambda: [-math.inf, -math.inf])
    best_step: int = 0
    waited: int = 0
    """Validations since the best one."""
    seconds: float = 0.0
    waiting: float = 0.0
    """The part of these seconds that went into waiting for batches."""
    timed_tokens: int = 0
    processes: int = 1
    """The number of processes that drew its random numbers."""
    plateau: Plateau = field(default_factory=lambda: Plateau(0))

    def state_dict(self) -> dict[str, object]:
        return asdict(self)

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        for name, value in state.items():
            setattr(self, name, Plateau(**value) if isinstance(value, dict) else value)


@tasks_kept()
def run(
    settings: RunSettings, path: Path, on_step: OnStep | None = None, stop: StopFlag | None = None, *,
    wait: bool = False, workers: int = 0, on_notes: Callable[[Sequence[str]], None] | None = None, end: bool = False,
    callbacks: Callbacks = (), log: Sequence[str] = (),
) -> RunResult:  # fmt: skip
    """Train, keep the best weights by validation, test once. Continues where an earlier call was stopped.

    Started by torchrun, every process calls it alike.

    Args:
        settings: the whole run.
        path: its folder; see `RunFolder`.
        on_step: told of every step and of the test after the last, in the first process alone.
        stop: when set, the run saves and ends after the step under way, as at Ctrl-C, SIGTERM or SIGHUP.
        wait: wait for another process that writes into the folder, instead of giving up.
        workers: processes that prepare batches ahead of the step; none changes a bit.
        on_notes: told of what is to be known of the data, in the first process alone.
        end: take no further step: validate if the run has not yet, test, and write what a run ends with.
        callbacks: objects that are told of steps, validations and the end, and may end the run.
        log: names of trackers that are told the same.

    Returns:
        The content of result.json.

    Raises:
        FolderTaken: the folder holds another run.  InUse: another process writes into it.
        UsageError: a batch has fewer rows than there are processes, or the machine cannot run so many workers.
        Damaged: a record of the run is not as it was written.  CheckpointDamaged: nothing whole to resume from.
        NonFiniteLoss: the last good checkpoint is kept.  Interrupted: stopped, after a checkpoint.
        DataError: the data cannot be used; or there is no checkpoint to end with.
        TooLarge: the model does not fit into memory.
    """
    check_cores(workers, f"--workers {workers:,}")

    def fit(trainer: Trainer, told_of: OnStep | None) -> None:
        with set_by_signals(stop) as flag:
            trainer.fit(told_of, flag, workers)

    with ExitStack() as held:
        trainer = _begun(held, settings, path, wait=wait, on_notes=on_notes, callbacks=callbacks, log=log)
        if isinstance(trainer, RunResult):
            return trainer
        if end:
            trainer.end_here()
        else:
            fit(trainer, on_step)
        # A loop over a list, and no recursion: a further training has no further ones of its own.
        ending = trainer.ending(on_step)
        further: dict[str, RunResult] = {}
        for part in ending.further():
            further[part.name] = _trained_further(path, part, fit, on_step)
        return trainer.finish(ending, further)


def _begun(
    held: ExitStack, settings: RunSettings, path: Path, *, wait: bool = False,
    on_notes: Callable[[Sequence[str]], None] | None = None, callbacks: Callbacks = (), log: Sequence[str] = (),
    further: bool = False,
) -> "Trainer | RunResult":  # fmt: skip
    """The objects of a run, at the newest checkpoint of its folder, or its result where it has ended.

    Args:
        held: keeps the folder for this process, and the trackers, until it is closed.
        settings, path, wait, on_notes, callbacks, log: as of `run`.
        further: whether it is a further training of a run, whose kernels and memory were seen to for the first.
    """
    folder = RunFolder(path)
    accelerator = accelerator_for(settings)
    with accelerator.main_process_first():  # which tokenises, and writes what the others find
        data = load_task(settings.data)
        data.train.steps_per_epoch(settings.train.batch_size)  # refuses before anything is written
        _check_validation(settings, data)
        if not further:
            check_room(settings, data)
        if accelerator.is_main_process:
            if on_notes is not None:
                on_notes(data.notes)
            folder.check_free()
            held.enter_context(sole_writer(path, wait=wait))
        folder.claim(settings, data.sources)
    done = folder.finished()
    if done is not None:
        return done
    if not further:
        compile_kernels([settings])
    torch.set_num_threads(settings.threads)
    trackers = held.enter_context(tracked(log if accelerator.is_main_process else (), path, settings))
    trainer = Trainer(settings, data, folder, accelerator, callbacks, trackers)
    trainer.resume()
    return trainer


def _trained_further(
    path: Path, part: Further, fit: "Callable[[Trainer, OnStep | None], None]", on_step: OnStep | None
) -> RunResult:  # fmt: skip
    """The result of a further training of the run in `path`, which is resumed where it was stopped."""

    def tell(progress: Progress) -> None:
        if on_step is not None:
            on_step(progress._replace(doing=part.description))

    try:
        with ExitStack() as held:
            trainer = _begun(held, part.settings, path / FURTHER / part.name, further=True)
            if isinstance(trainer, RunResult):
                return trainer
            fit(trainer, tell)
            return trainer.finish(Ending(trainer.trained()), {})
    except Interrupted as error:
        raise Interrupted(
            f"{path}: stopped while it was trained {part.description}; kept", error.signal_number
        ) from error


@tasks_kept()
def with_length(path: Path, change: Mapping[str, int]) -> RunSettings:
    """Give a run that was stopped another number of steps, and its settings then.

    Args:
        path: its folder.
        change: `epochs` or `total_steps`; the other no longer counts.

    Raises:
        DataError: it has ended, has done as many steps already, or those that it has done would have had other rates.
        InUse: another process writes into the folder.  Damaged: a record of the run is not as it was written.
    """
    folder = RunFolder(path)
    with sole_writer(path):
        before = folder.settings()
        if folder.finished() is not None:
            raise DataError(f"{path}: has ended, and keeps nothing to go on from; begin another run")
        after = before.model_copy(update={"train": before.train.model_copy(update={"total_steps": 0, **change})})
        old, new = (total_steps(run, _batches(run, load_task(run.data))) for run in (before, after))
        newest = checkpoint.newest(folder.checkpoints)
        done = 0 if newest is None else checkpoint.step_of(newest)
        if new < done:
            raise DataError(
                f"{path}: has done {done:,} of {new:,} steps already; gatedrnn train --finish {path} ends it"
            )
        changed = next((n for n in range(done) if _rate(n, old, before) != _rate(n, new, before)), None)
        if changed is not None:
            raise DataError(
                f"{path}: with {new:,} steps instead of {old:,} step {changed + 1:,} would have had the learning rate "
                f"{_rate(changed, new, before):.3g}, not {_rate(changed, old, before):.3g} (--schedule "
                f"{before.train.schedule}, --warmup {before.train.warmup:g}); begin another run, or end this one with "
                "--finish"
            )
        LOG.info("%s: %d steps instead of %d; %d are done", path, new, old, done)
        folder.replace_settings(after)
        remove_folder(path / FURTHER)  # trained for another number of steps
    return after


def _check_validation(settings: RunSettings, data: TaskData) -> None:
    """Check that there is a validation part where the run depends on one.

    Raises:
        DataError: there is none.
    """
    flag = "--early-stop" if settings.train.early_stop else "--schedule plateau"
    if (settings.train.early_stop or settings.train.schedule == "plateau") and "validation" not in data.evaluation:
        raise DataError(f"{flag} goes by a validation part, and {data.name} has none here; leave it out")


def _batches(settings: RunSettings, data: TaskData) -> StepBatches:
    return StepBatches(data.train, settings.seed, settings.train.batch_size, settings.train.accumulate)


def total_steps(settings: RunSettings, batches: StepBatches) -> int:
    """The steps of a whole run."""
    return settings.train.total_steps or settings.train.epochs * batches.steps_per_epoch


def _rate(step: int, total: int, settings: RunSettings) -> float:
    return learning_rate_at(step, total, settings.train)


def accelerator_for(settings: RunSettings) -> Accelerator:
    """Devices and precision of a run.

    Raises:
        UsageError: a batch has fewer rows than there are processes.
    """
    # Accelerate keeps one state a process; a second run in it may ask for another precision.
    AcceleratorState._reset_state(reset_partial_state=False)
    precision = "bf16" if settings.train.precision == "bfloat16" else "no"
    accelerator = Accelerator(cpu=not torch.cuda.is_available(), mixed_precision=precision)
    if accelerator.num_processes > settings.train.batch_size:
        raise UsageError(
            f"--batch-size {settings.train.batch_size}: {accelerator.num_processes} processes share it by rows; give "
            "each of them one at least"
        )
    return accelerator


class Trainer:
    """The objects of one run, and the three things done with them: resume, fit, finish."""

    def __init__(
        self, settings: RunSettings, data: TaskData, folder: RunFolder, accelerator: Accelerator | None = None,
        callbacks: Callbacks = (), trackers: Callbacks = (),
    ) -> None:  # fmt: skip
        self.settings, self.data, self.folder, self.commit = settings, data, folder, commit()
        self.accelerator = accelerator or accelerator_for(settings)
        logging.getLogger("accelerate.utils.other").setLevel(logging.ERROR)  # it warns of tied weights at every saving
        set_seed(settings.seed)
        model = build_model(settings, data)
        if checkpoint.newest(folder.checkpoints) is None:  # which would have what is fitted here
            task_named(data.name).begin(model, settings, data)
        self.objective = task_named(data.name).objective(data, model.config, settings.train)
        if settings.train.gradient_checkpointing:
            model.activation_checkpointing_enable()
        if settings.train.compile:
            check_compiler()
            model.compile()
        self.sharing = Sharing(self.accelerator, model, self._optimizer)
        self.model, self.bare = self.sharing.model, self.sharing.bare
        self.average = MovingAverage(self.bare, settings.train.average) if settings.train.average else None
        self.state = RunState(plateau=Plateau(settings.train.patience), processes=self.accelerator.num_processes)
        self.accelerator.register_for_checkpointing(self.state)
        self.best: Weights = {}
        self.log = MetricsLog(folder.metrics)
        self.may_end, self.asked_to_end = bool(callbacks), False
        """Whether a callback may end the run, and whether one has asked for it."""
        self.told = [*callbacks, *trackers] if self.accelerator.is_main_process else []
        self.batches = _batches(settings, data)
        self.steps_per_epoch = self.batches.steps_per_epoch
        self.total = total_steps(settings, self.batches)

    def _optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        train = self.settings.train
        return torch.optim.AdamW(
            model.parameters(), betas=(0.9, train.beta2), weight_decay=train.weight_decay, fused=True
        )

    def resume(self) -> None:
        """Resume from the newest whole checkpoint, if there is one; truncate the log to its step."""
        newest = checkpoint.newest(self.folder.checkpoints)
        if newest is not None:
            self.folder.check_same_settings(newest, self.settings)
            rank, processes = self.accelerator.process_index, self.accelerator.num_processes
            copies = self.sharing.load(newest)
            self.objective.load(newest, rank, processes)
            self.best = copies.get(BEST, {})
            if self.average is not None:
                self.average.weights = copies[AVERAGE]
            if self.state.processes != processes:  # there are no random numbers for some of them
                set_seed(int(SeedSequence([self.settings.seed, self.state.step, rank]).generate_state(1)[0]))
                self.state.processes = processes
        if self.accelerator.is_main_process:
            self.log.go_back(newest)
        self.accelerator.wait_for_everyone()

    def fit(self, on_step: OnStep | None, stop: SignalFlag, workers: int = 0) -> None:
        """Step after step to the end of the last epoch, or until validation has stopped improving."""
        train, state, first = self.settings.train, self.state, True
        steps = self.batches.ahead(range(state.step, self.total), workers)
        main = self.accelerator.is_main_process
        self.model.train()
        while state.step < self.total and not self._improves_no_more():
            started = time.perf_counter()
            batches = next(steps)
            waited = time.perf_counter() - started
            epoch, index = divmod(state.step, self.steps_per_epoch)
            rate = learning_rate_at(state.step, self.total, train) * state.plateau.factor
            with denormals_as_zero():
                loss, norm, tokens = self._step(batches, index == 0, rate)
            state.step += 1
            elapsed = time.perf_counter() - started
            if not first:  # the first step of a process pays for compilation and warm caches
                state.seconds += elapsed
                state.waiting += waited
                state.timed_tokens += tokens
            first = False
            if main and (state.step % train.log_every == 0 or state.step == self.total):
                self.log.append(
                    step=state.step, epoch=epoch, loss=loss, learning_rate=rate, gradient_norm=norm,
                    measured={"seconds": round(state.seconds, 3)},
                )  # fmt: skip
            # Where the last weights are taken, a validation at each of many ends of epochs chooses nothing.
            every = train.validate_every or (self.total if self._takes_last else self.steps_per_epoch)
            validates = state.step % every == 0 or state.step == self.total
            if validates:
                self._validate(epoch)
            self.asked_to_end |= told(self.told, "on_step", StepRecord(state.step, self.total, epoch, loss, rate, norm))
            ending = self.may_end and self._by_any(self.asked_to_end)
            if ending and not (validates and self.best):
                self._validate(epoch, last=True)
            stopping = self._by_any(stop.is_set())
            if validates or state.step % train.checkpoint_every == 0 or stopping or ending:
                self._save()
            if main and on_step is not None:
                on_step(self._progress(loss))
            if stopping:
                raise Interrupted(
                    f"{self.folder.path}: stopped at step {state.step} of {self.total}; kept", stop.signal_number
                )
            if ending:
                return

    def _progress(self, loss: float, doing: str = "") -> Progress:
        state = self.state
        return Progress(state.step, self.total, loss, state.timed_tokens / (state.seconds or math.inf), doing)

    def end_here(self) -> None:
        """End training at the last checkpoint; validate where there are no best weights yet.

        Raises:
            DataError: the run has no checkpoint.
        """
        if self.state.step == 0:
            raise DataError(f"{self.folder.path}: has no checkpoint yet, and so nothing to end with")
        if not self.best:
            self._validate((self.state.step - 1) // self.steps_per_epoch, last=True)

    def run_steps(self, steps: int) -> None:
        """Run steps of the last epoch alone, for a measurement: nothing is logged or saved."""
        torch.set_num_threads(self.settings.threads)
        first = (self.settings.train.epochs - 1) * self.steps_per_epoch
        for index in range(steps):
            with denormals_as_zero():
                self._step(self.batches[first + index], index == 0, self.settings.train.learning_rate)

    def trained(self) -> Trained:
        """The model with its best weights."""
        put_into(self.bare, self.best)
        return Trained(self.settings, self.data, self.bare, self.state.best_step, self.accelerator)

    def ending(self, on_step: OnStep | None = None) -> Ending:
        """The end of the run, between its first training and its test; `on_step` is told of it."""
        if on_step is not None and self.accelerator.is_main_process:
            on_step(self._progress(math.nan, "testing"))
        return task_named(self.data.name).ending()(self.trained())

    def finish(self, ending: Ending, further: Mapping[str, RunResult]) -> RunResult:
        """Test the run's model once (a trial's on validation alone); write the models' folders and the result.

        Args:
            ending: what the task does between training and test.
            further: the results of its further trainings, by name.
        """
        settings, folder, data = self.settings, self.folder, self.data
        kind = type(self.bare)
        models = {
            name: open_model(kind, folder.path / FURTHER / name / "model").to(self.bare.device) for name in further
        }
        ended = ending.finish(models)
        # After what is chosen on validation, so that a run has one validation score: that of the model as it answers.
        evaluations = {split: self._evaluate(self.bare, split) for split in data.evaluation if split == "validation"}
        if not settings.trial:
            evaluations = {
                split: evaluations[split] if split in evaluations else self._evaluate(ended.tested, split)
                for split in data.evaluation
            }
        seconds = sum(result.measured.training_seconds for result in further.values())
        result = self._result(evaluations, seconds, ended.plain_part)
        if self.accelerator.is_main_process:
            if not settings.trial:
                structure, parameters = describe_structure(self.bare, data.steps), count_parameters(self.bare)
                card = model_card(settings, data, structure, parameters, result)
                write_model(ended.final, data, folder.model, card)
                if ended.tested is not ended.final:
                    write_model(ended.tested, data, folder.tested, card)
            folder.seal(result, {split: evaluation.outcomes for split, evaluation in evaluations.items()})
            for done in (folder.checkpoints, folder.path / FURTHER):
                remove_folder(done)  # nothing is left to resume
            told(self.told, "on_end", result)
        self.accelerator.wait_for_everyone()
        return result

    def _evaluate(self, model: GatedRNNPreTrainedModel, split: str) -> Evaluation:
        return evaluate(model, self.data, split, self.accelerator)

    def _result(self, evaluations: dict[str, Evaluation], further: float, plain: PlainPart | None) -> RunResult:
        """The result of the whole run, with seconds of further training."""
        state = self.state
        return RunResult(
            cell=self.settings.backbone or self.settings.cell,
            hidden_size=self.settings.hidden_size,
            seed=self.settings.seed,
            steps=state.step,
            best_step=state.best_step,
            scores={split: part.scores for split, part in evaluations.items()},
            confusion={split: part.confusion for split, part in evaluations.items() if part.confusion is not None}
            or None,
            each_label={split: part.each_label for split, part in evaluations.items() if part.each_label is not None}
            or None,
            metric=self.objective.metric.name,
            weights="last" if self._takes_last or "validation" not in self.data.evaluation else "best",
            plain_part=plain,
            measured=RunMeasured(
                training_seconds=state.seconds + further,
                waiting_share=state.waiting / state.seconds if state.seconds else None,
                tokens_per_second=state.timed_tokens / state.seconds if state.seconds else None,
                threads=self.settings.threads,
                processes=self.accelerator.num_processes,
                processor=processor(),
                commit=self.commit,
            ),
        )

    def _step(self, batches: list[Batch], begins: bool, rate: float) -> tuple[float, float, int]:
        """One update; the loss, the norm of the gradient before clipping, and the tokens that were read."""
        train, accelerator = self.settings.train, self.accelerator
        for group in self.sharing.optimizer.param_groups:
            group["lr"] = rate
        items = sum(self.objective.count(batch) for batch in batches)
        if begins:
            self.objective.begin()
        value = 0.0
        for number, batch in enumerate(batches):
            last = number == len(batches) - 1
            with nullcontext() if last else self.sharing.accumulating():
                with accelerator.autocast():
                    loss = self._loss(batch, items)
                # Gradients of all processes are averaged, and the loss is a sum over them.
                self.accelerator.backward(loss * accelerator.num_processes if accelerator.num_processes > 1 else loss)
            value += loss.item()
        if accelerator.num_processes > 1:
            value = float(accelerator.reduce(torch.tensor(value, device=accelerator.device), "sum"))
        self._check_finite("loss", value)
        norm = self.sharing.clip(train.clip)
        self._check_finite("norm of the gradient", norm)
        self.sharing.optimizer.step()
        self.sharing.optimizer.zero_grad()
        if self.average is not None:
            self.average.update(self.bare)
        return value, norm, sum(tokens_in(batch) for batch in batches)

    def _loss(self, batch: Batch, items: int) -> Tensor:
        """The loss of this process's rows. The last batch of an epoch may have fewer rows than there are processes; one
        without any takes part in the exchange of gradients with a row that does not count.
        """
        device = self.accelerator.device
        share = rows_of(batch, self.accelerator.process_index, self.accelerator.num_processes, device)
        if len(next(iter(share.values()))):
            return self.objective.loss(self.model, share, items)
        return 0 * self.objective.loss(
            self.model, {name: tensor[:1].to(device) for name, tensor in batch.items()}, items
        )

    def _check_finite(self, what: str, value: float) -> None:
        if math.isfinite(value):
            return
        kept = checkpoint.newest(self.folder.checkpoints)
        raise NonFiniteLoss(
            f"{self.folder.path}: the {what} is {value} at step {self.state.step + 1}; "
            f"{f'checkpoint {kept.name} is kept' if kept else 'no checkpoint was taken yet'}. "
            "Try a lower --learning-rate or --clip, with another --output"
        )

    def _validate(self, epoch: int, *, last: bool = False) -> None:
        """Every process for itself: all have the same weights, and none waits for another longer than it is used to.

        Args:
            epoch: that it is in.
            last: whether the run ends here; without a validation part the weights are taken then.
        """
        validation, state = self.data.evaluation.get("validation"), self.state
        with self.average.in_place(self.bare) if self.average is not None else nullcontext():
            if validation is None:
                if last or state.step == self.total:
                    state.best_step, self.best = state.step, weights_of(self.bare)
                return
            scores = evaluate(self.bare, self.data, "validation", self.accelerator).scores
            self._check_finite("validation loss", scores.loss)
            rank = list(self.objective.metric.rank(scores))
            state.waited += 1
            is_best = self._takes_last or rank > state.best_rank
            if is_best:
                state.best_rank, state.best_step, state.waited = rank, state.step, 0
                self.best = weights_of(self.bare)
        if self.settings.train.schedule == "plateau":
            state.plateau.update(scores.loss)
        if self.accelerator.is_main_process:
            named = {f"validation_{k}": v for k, v in scores.model_dump(exclude_none=True).items()}
            self.log.append(step=state.step, epoch=epoch, **named)
        by_name = MappingProxyType(scores.model_dump(exclude_none=True))
        self.asked_to_end |= told(self.told, "on_validation", ValidationRecord(state.step, by_name, is_best))

    @property
    def _takes_last(self) -> bool:
        """Whether the last weights are kept, whatever validations say."""
        return self.objective.takes_last or self.settings.train.weights == "last"

    def _improves_no_more(self) -> bool:
        return 0 < self.settings.train.early_stop <= self.state.waited

    def _by_any(self, asked: bool) -> bool:
        """Whether any of the processes was asked something, for all of them to do the same."""
        if self.accelerator.num_processes == 1:
            return asked
        return bool(self.accelerator.reduce(torch.tensor(int(asked), device=self.accelerator.device), "sum"))

    def _save(self) -> None:
        checkpoint.save(self.folder.checkpoints, self.state.step, self._write_checkpoint, self.accelerator)

    def _write_checkpoint(self, into: Path) -> None:
        copies = {BEST: self.best} if self.best else {}
        self.sharing.save(into, copies if self.average is None else copies | {AVERAGE: self.average.weights})
        self.objective.save(into, self.accelerator.process_index)
        if self.accelerator.is_main_process:
            self.folder.keep_settings(into, self.settings)
            self.log.keep(into)
