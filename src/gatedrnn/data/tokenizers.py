"""Tokenizers learned on the training split alone, as Hugging Face tokenizers that a model folder can carry."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, cast

from tokenizers import Encoding, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from gatedrnn.data.scripts import UNDIVIDED
from gatedrnn.errors import DataError, is_panic, reason
from gatedrnn.tables.table import with_whole_characters

PAD, UNK, EOS = "<pad>", "<unk>", "<eos>"
SPECIAL = [PAD, UNK]
"""Numbers 0 and 1 of a vocabulary for texts that are read one by one."""
_SPECIAL_OF_STREAM = [UNK, EOS]
"""Numbers 0 and 1 of a vocabulary for running text: <eos> stands between texts, or ends each line of words."""
BY_LINE = ("words", "whitespace", "tokens")
"""Tokenizers that know no line break: each line ends with <eos>."""
AT_ONCE = 1 << 18  # characters that are encoded together
WORD = r"\w+|[^\w\s]"
"""A word, or a mark by itself, as "pieces" splits texts."""
_LETTER = rf"[{UNDIVIDED}]\p{{M}}*"
"""A letter of a script without blanks between words, with its vowel signs and tone marks."""
_UNDIVIDED_WORD = rf"{_LETTER}|[\w&&[^{UNDIVIDED}]]+|[^\w\s]"
"""A word or a mark, where texts have such letters, each of which is a word by itself."""
_MAX_WORD = 16
"""Characters of a token of "pieces" at most; longer words are read in pieces. Few words of any language are longer, and
a model that knows the characters of a token has a row as wide as the longest."""
MAX_WORDS, MAX_PIECES, MAX_PIECE = 30_000, 8_000, 8
"""The most entries of a "pieces" vocabulary: words, and beginnings of words and later parts of words each, that enter
the vocabulary at most."""
CONTINUES = "##"
"""The prefix of a token that continues the word of the token before it."""


def learn_tokenizer(
    kind: str,
    texts: Iterable[str],
    min_count: int,
    vocabulary_size: int,
    stream: bool = False,
    undivided: bool = False,
) -> PreTrainedTokenizerFast:
    """A tokenizer learned from `texts`.

    Args:
        kind: "whitespace": lower().split(); "tokens": the same without lower(); "words": lower case, every punctuation
            mark a token of its own; "pieces": the same, an unknown word being read as its longest known pieces; "bpe":
            byte-pair subwords, so that no word is unknown; "characters"; "bytes".
        texts: the training split.
        min_count: times a word or character (for bpe, a pair) must occur to enter the vocabulary.
        vocabulary_size: bpe only: tokens in the vocabulary at most.
        stream: for running text: with <eos>, without <pad>; bpe keeps capitals and line breaks.
        undivided: of "pieces": letters of scripts without blanks between words are tokens of their own.
    """
    special = _SPECIAL_OF_STREAM if stream else SPECIAL
    # A text may hold them (WikiText has <unk> for its rare words): they are not learned as words once more.
    texts = (re.sub("|".join(special), " ", text) for text in texts)
    if kind == "pieces":
        return PreTrainedTokenizerFast(
            tokenizer_object=_of_pieces(texts, min_count, undivided), pad_token=PAD, unk_token=UNK
        )
    if kind in ("bpe", "bytes"):
        tokenizer, trainer = _of_bytes(kind, min_count, vocabulary_size, special)
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=not stream)
        tokenizer.decoder = decoders.ByteLevel()
    else:
        tokenizer = Tokenizer(models.WordLevel(unk_token=UNK))
        # The trainer's own limit is 30,000 words; ours is the minimum count alone.
        trainer = trainers.WordLevelTrainer(
            vocab_size=2**31 - 1, min_frequency=min_count, special_tokens=special, show_progress=False
        )
        tokenizer.pre_tokenizer = {
            "whitespace": pre_tokenizers.WhitespaceSplit(), "tokens": pre_tokenizers.WhitespaceSplit(),
            "words": pre_tokenizers.BertPreTokenizer(),
            "characters": pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated"),
        }[kind]  # fmt: skip
        if kind == "characters":
            tokenizer.decoder = decoders.Fuse()
        elif stream:
            # Every word brings the space before it: what is decoded in parts (a continuation without its prompt, as
            # `pipeline` does it, or a stream) then joins up. So the first word of a text has one too.
            tokenizer.decoder = decoders.Replace(Regex(r"\A"), " ")
    if kind == "words" or (kind == "bpe" and not stream):
        # Composed form only: compatibility forms would turn the Korean letters of laughter (ㅋㅋㅋ) into others.
        tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    elif kind == "whitespace":
        tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.train_from_iterator(texts, trainer)
    if not stream:
        return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=PAD, unk_token=UNK)
    # A text begins where another ended. Padding is masked, so that any token can stand for it.
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{EOS} $A", special_tokens=[(EOS, tokenizer.token_to_id(EOS))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token=UNK, bos_token=EOS, eos_token=EOS, pad_token=EOS, padding_side="left",
        clean_up_tokenization_spaces=False, stream_kind=kind,
    )  # fmt: skip


def _of_pieces(texts: Iterable[str], min_count: int, undivided: bool) -> Tokenizer:
    """Words that are frequent enough as they are, others as the longest pieces that the vocabulary has, from the left.

    A piece is a part of at least two different words, or one character, so that a word is unknown as a whole only where
    training never saw one of its characters.
    """
    normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    splitter = pre_tokenizers.Split(Regex(_UNDIVIDED_WORD if undivided else WORD), behavior="removed", invert=True)
    counts = Counter(word for text in texts for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text)))
    words = [word for word, count in _ordered(counts) if count >= min_count and len(word) <= _MAX_WORD][:MAX_WORDS]
    begins, goes_on = Counter[str](), Counter[str]()
    for word in counts:
        for start in range(min(len(word), _MAX_WORD)):
            for stop in range(start + 1, min(len(word), start + MAX_PIECE) + 1):
                (goes_on if start else begins)[word[start:stop]] += 1
    alphabet, known = sorted(set("".join(counts))), set(words)
    pieces = [piece for piece in [*alphabet, *_shared(begins)] if piece not in known]
    # A letter that is always a word by itself continues none.
    inside = [letter for letter in alphabet if letter in goes_on or not is_letter(letter)] if undivided else alphabet
    pieces += [CONTINUES + piece for piece in [*inside, *_shared(goes_on)]]
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *words, *pieces])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=UNK, continuing_subword_prefix=CONTINUES))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
    tokenizer.decoder = decoders.WordPiece(prefix=CONTINUES, cleanup=False)
    return tokenizer


def is_letter(token: str) -> bool:
    """Whether a token is one letter of a script without blanks between words, with its signs and marks."""
    letters = token.removeprefix(CONTINUES)
    begins = re.match(f"[{UNDIVIDED}]", letters) is not None
    return begins and all(unicodedata.category(mark)[0] == "M" for mark in letters[1:])


def _ordered(counts: Counter[str]) -> list[tuple[str, int]]:
    """The most frequent first; among equals in the order of the alphabet, so that the order of texts does not count."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _shared(counts: Counter[str]) -> list[str]:
    """The parts of two characters or more that at least two words have, up to the limit."""
    return [piece for piece, words in _ordered(counts) if words >= 2 and len(piece) > 1][:MAX_PIECES]


def _of_bytes(kind: str, min_count: int, size: int, special: list[str]) -> tuple[Tokenizer, trainers.Trainer]:
    """Bytes, and pairs of them as far as `size` goes."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=size if kind == "bpe" else len(special) + len(alphabet), min_frequency=min_count,
        special_tokens=special, show_progress=False, initial_alphabet=alphabet,
    )  # fmt: skip
    return Tokenizer(models.BPE(unk_token=UNK)), trainer


def is_by_line(tokenizer: PreTrainedTokenizerFast) -> bool:
    """Whether <eos> ends each line of running text; else it stands between texts."""
    return tokenizer.init_kwargs["stream_kind"] in BY_LINE


def encode_stream(tokenizer: PreTrainedTokenizerFast, texts: Iterable[str]) -> Iterator[list[int]]:
    """Token numbers of each of `texts`, chunks of running text; <eos> for a line break if it is by line."""
    for batch in in_batches(texts, AT_ONCE):
        yield from encode_batch(tokenizer, batch)


def in_batches(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    """Texts in lists of `size` characters or a little more; the last one may have fewer."""
    batch, characters = list[str](), 0
    for text in texts:
        batch.append(text)
        characters += len(text)
        if characters >= size:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def decode_stream(tokenizer: PreTrainedTokenizerFast, ids: list[int]) -> str:
    """The text of token numbers; a line break for <eos> if it is by line, else nothing."""
    if not is_by_line(tokenizer):
        return str(tokenizer.decode([i for i in ids if i != tokenizer.eos_token_id]))
    words = tokenizer.convert_ids_to_tokens(ids)
    return re.sub(" ?\n ?", "\n", " ".join("\n" if word == EOS else word for word in words))


def encoded(
    tokenizer: PreTrainedTokenizerFast,
    rows: list[str] | list[list[str]],
    place: str,
    *,
    words: bool = False,
    special: bool = True,
    offsets: bool = True,
) -> list[Encoding]:
    """The tokens of each row.

    Args:
        rows: texts; lists of words with `words`.
        place: where they are from, for messages.
        special: whether the tokens that begin or end a text are among them.
        offsets: whether the place of each token in its text is asked for, which takes time.

    Raises:
        DataError: the tokenizer, which a folder of anybody's may have, fails; the row is named.
    """
    rows, backend = with_whole_characters(rows, place), tokenizer.backend_tokenizer
    call = backend.encode_batch if offsets else backend.encode_batch_fast
    encode = partial(call, is_pretokenized=words, add_special_tokens=special)
    try:
        return cast(list[Encoding], encode(rows))
    except BaseException as error:
        if not (isinstance(error, Exception) or is_panic(error)):
            raise
        number = next((number for number, row in enumerate(rows, start=1) if _fails(encode, row)), 1)
        raise DataError(f"{place}: row {number}: the tokenizer cannot read it: {reason(error)}") from error


def _fails(encode: Callable[[list[Any]], object], row: Sequence[str]) -> bool:
    """Whether a row alone fails."""
    try:
        encode([row])
    except BaseException as error:
        if not (isinstance(error, Exception) or is_panic(error)):
            raise
        return True
    return False


def unknown_in(tokenizer: PreTrainedTokenizerFast, text: str) -> list[str]:
    """The words or characters of a text that its vocabulary lacks, each once, in order."""
    text = with_whole_characters(text, "text")
    (encoding,) = encoded(tokenizer, [text], "text", special=False)
    spans = [
        text[slice(*span)]
        for number, span in zip(encoding.ids, encoding.offsets, strict=True)
        if number == tokenizer.unk_token_id
    ]
    return [span for span in dict.fromkeys(spans) if span != UNK]


def encode_batch(tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> Iterator[list[int]]:
    """`encode_stream` of texts that are encoded together."""
    if not is_by_line(tokenizer):
        yield from (row.ids for row in encoded(tokenizer, texts, "text", special=False, offsets=False))
        return
    lines = [text.split("\n") for text in texts]
    each = [line for text in lines for line in text]
    rows = iter(encoded(tokenizer, each, "text", special=False, offsets=False))
    for text in lines:
        ids = list(next(rows).ids)
        for row in islice(rows, len(text) - 1):
            ids += [tokenizer.eos_token_id, *row.ids]
        yield ids
