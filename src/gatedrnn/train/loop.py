"""The training loop: one run from its settings to a result, resumable at any step to the same bits."""

import json
import math
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import set_seed
from safetensors.torch import load_file, save_file
from torch.nn.functional import cross_entropy
from transformers.utils.logging import disable_progress_bar

from gatedrnn.data import Batch, TaskData, load_task, tokens_in
from gatedrnn.models.modeling import GatedRNNClassifier
from gatedrnn.records import write_whole
from gatedrnn.train import checkpoint
from gatedrnn.train.evaluate import Scores, evaluate
from gatedrnn.train.folder import RunFolder
from gatedrnn.train.metrics import MetricsLog
from gatedrnn.train.model import build_model
from gatedrnn.train.schedule import Plateau, learning_rate_at
from gatedrnn.train.settings import RunSettings

BEST = "best.safetensors"
OnStep = Callable[[int, int, float], None]
"""Called after each step with (step, steps in all, loss)."""


class NonFiniteLoss(Exception):
    """The loss became NaN or infinite."""


class Interrupted(Exception):
    """The run was asked to stop; a checkpoint was taken first."""


@dataclass
class RunState:
    """What a checkpoint carries beside weights, optimizer and random numbers."""

    step: int = 0
    best_score: float = -math.inf
    best_step: int = 0
    best_loss: float = math.inf
    seconds: float = 0.0
    timed_tokens: int = 0
    plateau: Plateau = field(default_factory=lambda: Plateau(0))

    def state_dict(self) -> dict[str, Any]:
        return asdict(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, Plateau(**value) if name == "plateau" else value)


class StopFlag(Protocol):
    """An event of threading or multiprocessing."""

    def is_set(self) -> bool:
        """Whether the run shall end after the step under way."""
        ...


def run(
    settings: RunSettings, path: Path, on_step: OnStep | None = None, stop: StopFlag | None = None
) -> dict[str, Any]:
    """Train, keep the best weights by validation accuracy, test once. Goes on where an earlier call was stopped.

    Args:
        settings: the whole run.
        path: its folder; see `RunFolder`.
        on_step: told of every step.
        stop: when set, the run saves and ends after the step under way; Ctrl-C, if None.

    Returns:
        The result, as it stands in result.json.

    Raises:
        FolderTaken: the folder holds another run.  CheckpointDamaged: nothing whole to resume from.
        NonFiniteLoss: the last good checkpoint is kept.  Interrupted: stopped, after a checkpoint.
        DataError: the data cannot be used.
    """
    folder = RunFolder(path)
    data = load_task(settings.data)
    folder.claim(settings, data.sources)
    done = folder.finished()
    if done is not None:
        return done
    torch.set_num_threads(settings.threads)
    trainer = Trainer(settings, data, folder)
    trainer.resume()
    with nullcontext(stop) if stop is not None else _set_by_interrupt() as flag:
        trainer.fit(on_step, flag)
    return trainer.finish()


class Trainer:
    """The objects of one run, and the three things done with them: resume, fit, finish."""

    def __init__(self, settings: RunSettings, data: TaskData, folder: RunFolder) -> None:
        self.settings, self.data, self.folder = settings, data, folder
        # Accelerate keeps one state a process; a second run in it may ask for another precision.
        AcceleratorState._reset_state(reset_partial_state=True)
        precision = "bf16" if settings.train.precision == "bfloat16" else "no"
        self.accelerator = Accelerator(cpu=not torch.cuda.is_available(), mixed_precision=precision)
        if self.accelerator.num_processes != 1:
            raise RuntimeError(f"a run takes one process, got {self.accelerator.num_processes}; use --jobs instead")
        set_seed(settings.seed)
        model = build_model(settings, data)
        optimizer = torch.optim.AdamW(model.parameters(), weight_decay=settings.train.weight_decay, fused=True)
        self.model: GatedRNNClassifier
        self.model, self.optimizer = self.accelerator.prepare(model, optimizer)
        self.state = RunState(plateau=Plateau(settings.train.patience))
        self.accelerator.register_for_checkpointing(self.state)
        self.best: dict[str, torch.Tensor] = {}
        self.log = MetricsLog(folder.metrics)
        self.steps_per_epoch = data.train.steps_per_epoch(settings.train.batch_size)
        self.total = settings.train.epochs * self.steps_per_epoch

    def resume(self) -> None:
        """Take up the newest whole checkpoint, if there is one; cut the log back to its step."""
        newest = checkpoint.newest(self.folder.checkpoints)
        if newest is not None:
            self.accelerator.load_state(str(newest))
            self.best = load_file(newest / BEST) if (newest / BEST).exists() else {}
        self.log.cut_back(self.state.step)

    def fit(self, on_step: OnStep | None, stop: StopFlag) -> None:
        """Step after step to the end of the last epoch."""
        train, state, first = self.settings.train, self.state, True
        self.model.train()
        while state.step < self.total:
            started = time.perf_counter()
            epoch, index = divmod(state.step, self.steps_per_epoch)
            rate = learning_rate_at(state.step, self.total, train) * state.plateau.factor
            batch = self.data.train.batch(self.settings.seed, epoch, index, train.batch_size)
            loss, norm = self._step(batch, rate)
            state.step += 1
            elapsed = time.perf_counter() - started
            if not first:  # the first step of a process pays for compilation and warm caches
                state.seconds += elapsed
                state.timed_tokens += tokens_in(batch)
            first = False
            if state.step % train.log_every == 0:
                self.log.append(
                    step=state.step, epoch=epoch, loss=loss, learning_rate=rate, gradient_norm=norm,
                    measured={"seconds": round(state.seconds, 3)},
                )  # fmt: skip
            end_of_epoch = state.step % self.steps_per_epoch == 0
            if end_of_epoch:
                self._validate(epoch)
            stopping = stop.is_set()  # asked once: what stops the run must have been saved
            if end_of_epoch or state.step % train.checkpoint_every == 0 or stopping:
                checkpoint.save(self.folder.checkpoints, state.step, self._write_checkpoint)
            if on_step is not None:
                on_step(state.step, self.total, loss)
            if stopping:
                raise Interrupted(f"{self.folder.path}: stopped at step {state.step} of {self.total}; kept")

    def rehearse(self, steps: int) -> None:
        """The first steps alone, for a measurement: nothing is logged or saved."""
        torch.set_num_threads(self.settings.threads)
        for index in range(steps):
            batch = self.data.train.batch(self.settings.seed, 0, index, self.settings.train.batch_size)
            self._step(batch, self.settings.train.learning_rate)

    def finish(self) -> dict[str, Any]:
        """Test the best weights once; write the model's folder and the result."""
        self.model.load_state_dict(self.best)
        scores = {
            name: evaluate(self.model, examples, self.accelerator) for name, examples in self.data.evaluation.items()
        }
        self._write_model()
        state = self.state
        result = {
            "cell": self.settings.cell,
            "hidden_size": self.settings.hidden_size,
            "seed": self.settings.seed,
            "steps": state.step,
            "best_step": state.best_step,
            **{f"{name}_{what}": value for name, score in scores.items() for what, value in _flat(score).items()},
            "confusion": {name: score["confusion"] for name, score in scores.items()},
            "measured": {
                "training_seconds": state.seconds,
                "tokens_per_second": state.timed_tokens / state.seconds if state.seconds else None,
                "threads": self.settings.threads,
            },
        }
        write_whole(self.folder.result, json.dumps(result, indent=1))
        shutil.rmtree(self.folder.checkpoints, ignore_errors=True)  # nothing is left to resume
        return result

    def _step(self, batch: Batch, rate: float) -> tuple[float, float]:
        """One update; the loss and the norm of the gradient before clipping."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        inputs = {name: tensor.to(self.accelerator.device) for name, tensor in batch.items()}
        labels = inputs.pop("labels")
        with self.accelerator.autocast():
            logits = self.model(**inputs).logits
        smoothing = self.settings.train.label_smoothing
        loss = cross_entropy(logits.flatten(0, -2).float(), labels.flatten(), label_smoothing=smoothing)
        value = loss.item()
        self._demand_finite("loss", value)
        self.accelerator.backward(loss)
        norm = float(self.accelerator.clip_grad_norm_(self.model.parameters(), self.settings.train.clip))
        self._demand_finite("norm of the gradient", norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return value, norm

    def _demand_finite(self, what: str, value: float) -> None:
        if math.isfinite(value):
            return
        kept = checkpoint.newest(self.folder.checkpoints)
        raise NonFiniteLoss(
            f"{self.folder.path}: the {what} is {value} at step {self.state.step + 1}; "
            f"{f'checkpoint {kept.name} is kept' if kept else 'no checkpoint was taken yet'}. "
            "Try a lower --learning-rate or --clip, with another --output"
        )

    def _validate(self, epoch: int) -> None:
        score, state = evaluate(self.model, self.data.evaluation["validation"], self.accelerator), self.state
        self._demand_finite("validation loss", score["loss"])
        better = (score["accuracy"], -score["loss"]) > (state.best_score, -state.best_loss)
        if better:
            state.best_score, state.best_loss, state.best_step = score["accuracy"], score["loss"], state.step
            self.best = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
        if self.settings.train.schedule == "plateau":
            state.plateau.update(score["loss"])
        self.log.append(step=state.step, epoch=epoch, **{f"validation_{k}": v for k, v in _flat(score).items()})

    def _write_checkpoint(self, into: Path) -> None:
        self.accelerator.save_state(str(into))
        if self.best:
            save_file(self.best, into / BEST)

    def _write_model(self) -> None:
        """The model's folder, whole or not there."""
        temporary = self.folder.model.with_name("model.writing")
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(self.folder.model, ignore_errors=True)
        disable_progress_bar()
        self.accelerator.unwrap_model(self.model).save_pretrained(temporary)
        if self.data.tokenizer is not None:
            self.data.tokenizer.save_pretrained(temporary)
        temporary.rename(self.folder.model)


def _flat(score: Scores) -> dict[str, float]:
    return {"accuracy": score["accuracy"], "loss": score["loss"]}


@contextmanager
def _set_by_interrupt() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets: the loop then ends its step and saves, instead of stopping in the middle."""
    stopped = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return
    before = signal.signal(signal.SIGINT, lambda *_: stopped.set())
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, before)
