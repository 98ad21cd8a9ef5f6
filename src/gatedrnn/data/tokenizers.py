"""Tokenizers learned on the training split alone, as Hugging Face tokenizers that a model folder can carry."""

from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

PAD, UNK = "<pad>", "<unk>"  # numbers 0 and 1 of every vocabulary
SPECIAL = [PAD, UNK]


def learn_tokenizer(kind: str, texts: Iterable[str], min_count: int, vocabulary_size: int) -> PreTrainedTokenizerFast:
    """A tokenizer learned from `texts`.

    Args:
        kind: "whitespace": lower().split(); "words": lower case, every punctuation mark a token of its own; "bpe":
            byte-pair subwords of such words, so that no word is unknown.
        texts: the training split.
        min_count: times a word (for bpe, a pair) must occur to enter the vocabulary.
        vocabulary_size: bpe only: tokens in the vocabulary at most.
    """
    if kind == "bpe":
        tokenizer = Tokenizer(models.BPE(unk_token=UNK))
        trainer: trainers.Trainer = trainers.BpeTrainer(
            vocab_size=vocabulary_size, min_frequency=min_count, special_tokens=SPECIAL, show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        )  # fmt: skip
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        tokenizer.decoder = decoders.ByteLevel()
    else:
        tokenizer = Tokenizer(models.WordLevel(unk_token=UNK))
        # The trainer's own limit is 30,000 words; ours is the minimum count alone.
        trainer = trainers.WordLevelTrainer(
            vocab_size=2**31 - 1, min_frequency=min_count, special_tokens=SPECIAL, show_progress=False
        )
        splits = {"whitespace": pre_tokenizers.WhitespaceSplit, "words": pre_tokenizers.BertPreTokenizer}
        tokenizer.pre_tokenizer = splits[kind]()
    lower = normalizers.Lowercase()
    # Composed form only: compatibility forms would turn the Korean letters of laughter (ㅋㅋㅋ) into others.
    tokenizer.normalizer = lower if kind == "whitespace" else normalizers.Sequence([normalizers.NFC(), lower])
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=PAD, unk_token=UNK)
