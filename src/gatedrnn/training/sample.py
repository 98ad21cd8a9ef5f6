"""Text from a trained language model."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast, StoppingCriteria, StoppingCriteriaList

from gatedrnn import manifest
from gatedrnn.data.tokenizers import decode_stream, encode_stream
from gatedrnn.errors import DataError, UsageError
from gatedrnn.models import GatedRNNForCausalLM
from gatedrnn.models.modeling import GatedRNNPreTrainedModel
from gatedrnn.models.opening import Finished
from gatedrnn.records import write_whole
from gatedrnn.training.finished import model_class_of, model_place, open_finished
from gatedrnn.training.folder import RunFolder

_TEMPERATURES = (0.5, 0.8, 1.0)
_SAMPLE_LENGTH = 300
OnText = Callable[[str], None]
"""Called with each new piece of a text, the prompt first; the pieces join to the text."""
_INCOMPLETE = "\ufffd"
"""The character that bytes are decoded to which are no whole character yet."""


def load_language_model(folder: Path) -> tuple[GatedRNNForCausalLM, PreTrainedTokenizerFast]:
    """The model and tokenizer of a run, or of a Hugging Face folder that one wrote.

    Raises:
        DataError: there is none, or it is no language model.  Damaged: a file of it is not as it was written.
    """
    _check_predicts_tokens(model_class_of(folder), folder)  # before a large model of another kind is loaded
    return as_language_model(open_finished(folder), folder)


def as_language_model(finished: Finished, folder: Path) -> tuple[GatedRNNForCausalLM, PreTrainedTokenizerFast]:
    """The model and tokenizer of a folder that is open; raises as `load_language_model`.

    Args:
        finished: what was opened.
        folder: named in errors.
    """
    model, tokenizer, _ = finished
    _check_predicts_tokens(type(model), folder)
    assert isinstance(model, GatedRNNForCausalLM)
    if tokenizer is None or "stream_kind" not in tokenizer.init_kwargs:
        raise DataError(f"{model_place(folder)}: has no tokenizer for running text; is this a classifier?")
    return model, tokenizer


def _check_predicts_tokens(kind: type[GatedRNNPreTrainedModel], folder: Path) -> None:
    if not kind.can_generate():
        raise DataError(
            f"{folder}: is no language model, but predicts labels; `gatedrnn evaluate` scores it, `gatedrnn predict` "
            "writes its predictions"
        )


def check_draws(
    temperature: float, top_k: int, top_p: float, stop: Sequence[str], samples: int | None = None,
    named: Callable[[str], str] = str,
) -> None:  # fmt: skip
    """Check options of `sample`, and a number of samples.

    Args:
        temperature, top_k, top_p, stop: as of `sample`.
        samples: texts for each prompt; None for one that is no list.
        named: writes the name of an option as the caller gives it.

    Raises:
        TypeError: an option is of another type.  UsageError: it is out of range.
    """
    for name, number in {"temperature": temperature, "top_p": top_p}.items():
        if not isinstance(number, Real):
            raise TypeError(f"{named(name)}: must be a number, got {number!r}")
    for name, value in {"top_k": top_k, "samples": 1 if samples is None else samples}.items():
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise TypeError(f"{named(name)}: must be a whole number, got {value!r}")
    if not 0 <= temperature < float("inf"):
        raise UsageError(f"{named('temperature')}: must be 0 (the likeliest token) or above, got {temperature}")
    if not 0 < top_p <= 1 or top_k < 0:
        raise UsageError(f"{named('top_p')} must lie in (0, 1], {named('top_k')} must be 0 or above")
    if "" in stop:
        raise UsageError(f"{named('stop')}: an empty text would end every text at once; leave it out")
    if samples is not None and samples < 1:
        raise UsageError(f"{named('samples')}: must be at least 1, got {samples}")


class _Listener(StoppingCriteria):
    """Reads the text at each token that `generate` draws: passes on what is new, and ends it before a stop text."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerFast, prompt: str, stop: tuple[str, ...], on_text: OnText
    ) -> None:  # fmt: skip
        self.tokenizer, self.stop, self.on_text = tokenizer, stop, on_text
        self.begin, self.sent = len(prompt), len(prompt)
        on_text(prompt)

    def __call__(self, input_ids: Tensor, scores: Tensor | None, **_: Any) -> Tensor:
        text = decode_stream(self.tokenizer, input_ids[0, 1:].tolist())
        end = self.end_of(text)
        self.send(text[: self._certain(text) if end is None else end])
        return torch.tensor([end is not None], device=input_ids.device)

    def end_of(self, text: str) -> int | None:
        """The place of the first stop text after the prompt; None if there is none."""
        found = [place for place in (text.find(word, self.begin) for word in self.stop) if place >= 0]
        return min(found, default=None)

    def send(self, text: str) -> None:
        """Pass on what is new in a text."""
        if len(text) > self.sent:
            self.on_text(text[self.sent :])
            self.sent = len(text)

    def _certain(self, text: str) -> int:
        """The length of the text without an end that may be the beginning of a stop text, or of a character."""
        certain = len(text.rstrip(_INCOMPLETE))
        for word in self.stop:
            ends = (n for n in range(len(word) - 1, 0, -1) if text.endswith(word[:n], self.begin))
            certain = min(certain, len(text) - next(ends, 0))
        return certain


def sample(
    model: GatedRNNForCausalLM, tokenizer: PreTrainedTokenizerFast, prompt: str, length: int, *,
    temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, seed: int = 0, endless: bool = False,
    no_unk: bool = False, stop: Iterable[str] = (), on_text: OnText | None = None,
) -> str:  # fmt: skip
    """The prompt and up to `length` tokens that the model adds; an empty prompt begins a new text.

    Args:
        model, tokenizer: see `load_language_model`.
        prompt: words outside the vocabulary read <unk>, see `unknown_in`.
        length: new tokens at most; a text that ends is not continued.
        temperature: 0 for the likeliest token each time; above 1 for more surprises.
        top_k, top_p: draw from the k likeliest tokens, or the likeliest that together have probability p; 0 and 1: all.
        seed: of the draws.
        endless: continue with another text where one ends.
        no_unk: never write <unk>.
        stop: texts; the continuation ends before the first of them.
        on_text: called with each new piece of the text.
    """
    ids = [tokenizer.bos_token_id, *next(encode_stream(tokenizer, [prompt]))]
    drawn: dict[str, Any] = {"do_sample": False}
    if temperature > 0:
        drawn = {"do_sample": True, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    if endless:
        drawn["eos_token_id"] = None
    if no_unk:
        drawn["suppress_tokens"] = [tokenizer.unk_token_id]
    listener = _Listener(tokenizer, decode_stream(tokenizer, ids[1:]), tuple(stop), on_text or (lambda _: None))
    if listener.stop or on_text is not None:
        drawn["stopping_criteria"] = StoppingCriteriaList([listener])
    training = model.training
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        generated = model.eval().generate(torch.tensor([ids], device=model.device), max_new_tokens=length, **drawn)
    model.train(training)
    text = decode_stream(tokenizer, generated[0, 1:].tolist())
    text = text[: listener.end_of(text)]
    listener.send(text)
    return text


def samples_of(
    model: GatedRNNForCausalLM, tokenizer: PreTrainedTokenizerFast, prompt: str | list[str], length: int, *,
    temperature: float, top_k: int, top_p: float, no_unk: bool, seed: int, stop: str | Iterable[str],
    samples: int | None, on_text: OnText | None,
) -> str | list[str] | list[list[str]]:  # fmt: skip
    """The texts of `Run.generate`, drawn one after another.

    Args:
        model, tokenizer: see `load_language_model`.
        prompt, length, temperature, top_k, top_p, no_unk, seed, stop, samples, on_text: as in `Run.generate`.
    """
    prompts, stops = _texts("prompt", prompt), _texts("stop", stop)
    check_draws(temperature, top_k, top_p, stops, samples)
    if isinstance(length, bool) or not isinstance(length, Integral):
        raise TypeError(f"length: must be a whole number of tokens, got {length!r}")
    if length < 1:
        raise UsageError(f"length: must be at least 1, got {length}")
    if on_text is not None and (samples is not None or not isinstance(prompt, str)):
        raise UsageError("on_text: follows one text; give one prompt as a str, and leave samples out")

    def text_of(text: str, number: int) -> str:
        return sample(
            model, tokenizer, text, int(length), temperature=temperature, top_k=top_k, top_p=top_p, no_unk=no_unk,
            seed=seed + number, stop=stops, on_text=on_text,
        )  # fmt: skip

    drawn = [[text_of(text, number) for number in range(samples or 1)] for text in prompts]
    if isinstance(prompt, str):
        return drawn[0][0] if samples is None else drawn[0]
    return [group[0] for group in drawn] if samples is None else drawn


def _texts(name: str, given: Any) -> list[str]:
    """One text or several as a list.

    Raises:
        TypeError: it is neither.
    """
    listed = isinstance(given, Iterable) and not isinstance(given, (str, bytes, Mapping, Set))
    texts = [given] if isinstance(given, str) else list(given) if listed else None
    if texts is None:
        raise TypeError(f"{name}: must be a str or a list of str, got {type(given).__name__}")
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"{name}: must be a str or a list of str, got {type(text).__name__} in the list")
    return texts


def write_samples(path: Path) -> None:
    """Let a finished run's model begin a text at each of `_TEMPERATURES`, into samples.json."""
    model, tokenizer = load_language_model(path)
    texts = {
        f"{heat:g}": sample(model, tokenizer, "", _SAMPLE_LENGTH, temperature=heat, endless=True)
        for heat in _TEMPERATURES
    }
    folder = RunFolder(path)
    write_whole(folder.samples, json.dumps(texts, indent=1, ensure_ascii=False))
    manifest.add(path, folder.samples.name)


def sample_to_show(texts: Mapping[str, str]) -> tuple[str, str]:
    """The temperature and text of the sample to print: the second coolest, since the coolest of a model that is trained
    for a short time repeats one character; where that is blank, the next one that is not. Blanks in a row are one, and
    empty lines too.
    """
    one_blank = {heat: re.sub(r"[^\S\n]+", " ", text) for heat, text in texts.items()}
    shown = {heat: re.sub(r"(?: ?\n){2,}", "\n\n", text).strip() for heat, text in one_blank.items()}
    heats = sorted(shown, key=float)
    return next(((heat, shown[heat]) for heat in [*heats[1:], *heats[:1]] if shown[heat]), (heats[0], "only blanks"))
