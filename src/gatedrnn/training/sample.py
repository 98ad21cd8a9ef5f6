"""Text from a trained language model."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast
from transformers.generation.streamers import BaseStreamer

from gatedrnn import manifest
from gatedrnn.data.tokenizers import decode_stream, encode_stream
from gatedrnn.errors import DataError
from gatedrnn.models import GatedRNNForCausalLM
from gatedrnn.models.opening import open_both
from gatedrnn.records import write_whole
from gatedrnn.training.finished import labelled_by, model_place
from gatedrnn.training.folder import RunFolder

TEMPERATURES = (0.5, 0.8, 1.0)
SAMPLE_LENGTH = 300
OnText = Callable[[str], None]
"""Told of the text so far, prompt included."""


def load_language_model(folder: Path) -> tuple[GatedRNNForCausalLM, PreTrainedTokenizerFast]:
    """The model and tokenizer of a run, or of a Hugging Face folder that one wrote.

    Raises:
        DataError: there is none, or it is no language model.  Damaged: a file of it is not as it was written.
    """
    place = model_place(folder)
    if labelled_by(folder) != "next":  # before transformers would fill the head of a language model with new weights
        raise DataError(
            f"{folder}: is no language model, but predicts labels; `gatedrnn evaluate` scores it, `gatedrnn predict` "
            "writes its predictions"
        )
    model, tokenizer = open_both(GatedRNNForCausalLM, place)
    if tokenizer is None or "stream_kind" not in tokenizer.init_kwargs:
        raise DataError(f"{place}: its tokenizer is not one for running text; is this a classifier?")
    return model, tokenizer


class _Listener(BaseStreamer):
    """Passes on the text so far whenever `generate` has a token."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, on_text: OnText) -> None:
        self.tokenizer, self.on_text, self.ids = tokenizer, on_text, list[int]()

    def put(self, value: Tensor) -> None:
        self.ids += value.flatten().tolist()
        self.on_text(decode_stream(self.tokenizer, self.ids[1:]))

    def end(self) -> None:
        pass


def sample(
    model: GatedRNNForCausalLM, tokenizer: PreTrainedTokenizerFast, prompt: str, length: int, *,
    temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, seed: int = 0, endless: bool = False,
    no_unk: bool = False, on_text: OnText = lambda _: None,
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
        on_text: called whenever there is a token more.
    """
    ids = [tokenizer.bos_token_id, *next(encode_stream(tokenizer, [prompt]))]
    drawn: dict[str, Any] = {"do_sample": False}
    if temperature > 0:
        drawn = {"do_sample": True, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    if endless:
        drawn["eos_token_id"] = None
    if no_unk:
        drawn["suppress_tokens"] = [tokenizer.unk_token_id]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        generated = model.generate(
            torch.tensor([ids], device=model.device),
            max_new_tokens=length,
            streamer=_Listener(tokenizer, on_text),
            **drawn,
        )
    return decode_stream(tokenizer, generated[0, 1:].tolist())


def write_samples(path: Path) -> None:
    """Let a finished run's model begin a text at each of `TEMPERATURES`, into samples.json."""
    model, tokenizer = load_language_model(path)
    texts = {
        f"{heat:g}": sample(model, tokenizer, "", SAMPLE_LENGTH, temperature=heat, endless=True)
        for heat in TEMPERATURES
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
