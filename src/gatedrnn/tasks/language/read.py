"""Language modelling: a text from files, from the hub or from Python's own documentation, as streams of tokens."""

from pathlib import Path

from gatedrnn.data.corpus import Corpus, HubSet, between, python_topics, read_corpus
from gatedrnn.data.stream import Lanes, ShuffledChunks, tokenise
from gatedrnn.data.task import TaskData
from gatedrnn.errors import DataError
from gatedrnn.tasks.language.settings import LanguageSettings

SPLITS = ("train", "validation", "test")
EVALUATION_LENGTH = 1024  # tokens at a time
ORDERS: dict[str, type[Lanes] | type[ShuffledChunks]] = {"lanes": Lanes, "shuffled": ShuffledChunks}
_EXACT = ("characters", "bytes")
"""Tokenizers for which a text can be cut at any character."""


def load_language_model(settings: LanguageSettings) -> TaskData:
    """The text of `settings`, tokenised; its vocabulary is learned on the training split alone."""
    notes: list[str] = []
    splits = _splits(settings, notes)
    tokenizer, streams = tokenise(splits, settings.tokenizer, settings.min_count, settings.vocabulary_size)
    if len(tokenizer) < 4:
        raise DataError(
            f"{splits['train'].place}: the vocabulary has {len(tokenizer) - 2} entries beside <unk> and <eos>; "
            "a text to learn from has at least 2"
        )
    for split, stream in streams.items():
        share = stream.unknown / stream.predictions
        notes.append(
            f"{split.capitalize()}: {stream.predictions:,} tokens, {share:.2%} of them <unk>, "
            f"in documents: {len(stream.starts):,}; bytes: {stream.text_bytes:,}."
        )
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    return TaskData(
        name="language-model",
        model_inputs={
            "vocab_size": len(tokenizer), "unk_token_id": tokenizer.unk_token_id,
            "pad_token_id": tokenizer.pad_token_id, **ends,
        },
        train=ORDERS[settings.order](streams["train"], settings.length, settings.document_resets),
        evaluation={
            split: Lanes(stream, EVALUATION_LENGTH, settings.document_resets)
            for split, stream in streams.items()
            if split != "train"
        },
        sources=[
            {
                "split": split, "name": corpus.name, "rows": f"{streams[split].predictions:,} tokens",
                "sha256": corpus.digest, **({"files": dict(corpus.files)} if corpus.files else {}),
            }
            for split, corpus in splits.items()
        ],
        notes=notes,
        tokenizer=tokenizer,
    )  # fmt: skip


def _splits(settings: LanguageSettings, notes: list[str]) -> dict[str, Corpus]:
    """The texts of the splits; a split without a file is cut off the end of the training text."""
    named = {name: getattr(settings, f"{name}_file") for name in SPLITS}
    files: dict[str, Path] = {name: path for name, path in named.items() if path is not None}
    if settings.hub is not None:
        if files:
            raise DataError("give --hub or files, not both")
        hub = HubSet(settings.hub, settings.hub_configuration, settings.streaming)
        has = hub.splits()
        if "train" not in has:
            raise DataError(f"{settings.hub}: has no split named train; there are {', '.join(has)}")
        corpora = {
            split: hub.corpus(split, settings.text_column, settings.document_start) for split in SPLITS if split in has
        }
    elif settings.streaming:
        raise DataError("--streaming: needs --hub; files are never read as a whole")
    elif files:
        if "train" not in files:
            raise DataError("language-model: needs --train-file beside the other files")
        corpora = {
            split: read_corpus(path, settings.text_column, settings.document_start) for split, path in files.items()
        }
    else:
        corpora = {"train": python_topics()}
    notes += dict.fromkeys(line for corpus in corpora.values() for line in corpus.columns)
    whole, end = corpora["train"], 1.0
    for split, fraction in (("test", settings.test_fraction), ("validation", settings.validation_fraction)):
        if split not in corpora and fraction:
            start = round(end - fraction, 9)
            corpora[split] = between(whole, start, end, settings.tokenizer in _EXACT)
            notes.append(f"{split.capitalize()}: characters {start:.0%} to {end:.0%} of the training text.")
            end = start
    if end <= 0:
        raise DataError("--validation-fraction and --test-fraction leave nothing to train on")
    if end < 1:
        corpora["train"] = between(whole, 0.0, end, settings.tokenizer in _EXACT)
    return {split: corpora[split] for split in SPLITS if split in corpora}
