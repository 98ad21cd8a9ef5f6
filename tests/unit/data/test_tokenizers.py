"""Tokenizers: vocabularies counted in plain Python, and texts that come back."""

from collections import Counter

import pytest
from shared_data import SHARED, needs_shared_data
from transformers import AutoTokenizer

from gatedrnn.data.files import read_file
from gatedrnn.data.tokenizers import PAD, SPECIAL, UNK, learn_tokenizer

KOREAN = ["이 영화는 정말 재미있다!", "별로예요... 다시는 안 봐요", "최고의 영화"]
LETTERS = ["ㅋㅋㅋ 재밌다", "ㅠㅠ 슬프다", "ㄱㅏ"]
EMOJI = ["좋아요 👍🏽 끝", "가족 👨‍👩‍👧‍👦 영화", "❤️ ❤"]


def learn(kind, texts, min_count=1, vocabulary_size=1_000):
    return learn_tokenizer(kind, texts, min_count, vocabulary_size)


def counted(texts, min_count):
    """The words of `lower().split()` that occur often enough."""
    counts = Counter(word for text in texts for word in text.lower().split())
    return {word for word, count in counts.items() if count >= min_count}


def words_of(tokenizer):
    return tokenizer.get_vocab().keys() - set(SPECIAL)


def real_texts(name):
    return read_file(SHARED / name, None, None).texts


@needs_shared_data
@pytest.mark.parametrize("name", ["ag_news/test.parquet", pytest.param("nsmc/test.parquet", marks=pytest.mark.slow)])
def test_the_whitespace_vocabulary_of_real_texts_is_the_one_counted_by_hand(name):
    texts = read_file(SHARED / name, None, None).texts[:1_000]
    for min_count in (1, 3):
        tokenizer, expected = learn("whitespace", texts, min_count), counted(texts, min_count)
        assert words_of(tokenizer) == expected
        assert len(tokenizer) == len(expected) + 2


@pytest.mark.slow
@needs_shared_data
def test_the_vocabulary_of_ag_news_has_the_published_size():
    texts = read_file(SHARED / "ag_news" / "train-subset.parquet", None, None).texts
    tokenizer = learn("whitespace", texts, min_count=5)
    assert len(tokenizer) == 22_718  # shared/data/README.md, two specials included
    assert words_of(tokenizer) == counted(texts, 5)


def test_more_words_than_the_libraries_own_limit_all_enter():
    texts = [f"w{i}" for i in range(40_000)]
    assert len(learn("whitespace", texts)) == len(learn("words", texts)) == 40_002


def test_a_word_below_the_minimum_count_reads_as_unknown():
    for kind in ("words", "whitespace"):
        tokenizer = learn(kind, ["rare often often", "often seldom seldom"], min_count=2)
        assert tokenizer.tokenize("seldom Rare often new") == ["seldom", UNK, "often", UNK]


def test_whitespace_keeps_punctuation_in_the_word_and_words_sets_it_apart():
    texts = ["Don't stop -- the U.S.-based film, (really)!"]
    assert learn("whitespace", texts).tokenize(texts[0]) == texts[0].lower().split()
    expected = "don ' t stop - - the u . s . - based film , ( really ) !".split()
    assert learn("words", texts).tokenize(texts[0]) == expected


def test_words_reads_the_forms_of_one_letter_as_one():
    tokenizer = learn("words", ["full café 한국"])
    # Capitals, a combining accent, and Korean syllables in their parts.
    assert tokenizer.tokenize("FULL cafe\u0301 \u1112\u1161\u11ab\u1100\u116e\u11a8") == ["full", "café", "한국"]


def test_bpe_restores_korean_single_letters_and_emoji():
    tokenizer = learn("bpe", KOREAN * 5, min_count=2)
    for text in [*KOREAN, *EMOJI, "Hello, World !", "두\n줄\t그리고  두 칸", *LETTERS]:
        ids = tokenizer(text)["input_ids"]
        assert UNK not in tokenizer.convert_ids_to_tokens(ids), "no word is unknown"
        assert tokenizer.decode(ids).strip() == text.lower()


def test_bpe_joins_what_is_frequent_and_keeps_to_its_size():
    small, large = (learn("bpe", KOREAN * 5, 2, size) for size in (300, 400))
    assert len(small) == 300
    assert 300 < len(large) <= 400
    assert len(large.tokenize(KOREAN[0])) < len(small.tokenize(KOREAN[0])) < len(f" {KOREAN[0]}".encode())


@pytest.mark.parametrize("kind", ["words", "whitespace", "bpe"])
def test_the_order_of_texts_does_not_matter_and_a_saved_tokenizer_reads_as_before(kind, tmp_path):
    tokenizer, texts = learn(kind, [*KOREAN, *EMOJI]), [*KOREAN, "unknown words", *EMOJI]
    assert (tokenizer.pad_token_id, tokenizer.unk_token_id) == (0, 1)
    assert (tokenizer.convert_ids_to_tokens(0), tokenizer.convert_ids_to_tokens(1)) == (PAD, UNK)
    assert sorted(tokenizer.get_vocab().values()) == list(range(len(tokenizer))), "numbers without a gap"
    for order in ([*EMOJI, *KOREAN], (text for text in [*KOREAN, *EMOJI][::-1])):
        assert learn(kind, order).get_vocab() == tokenizer.get_vocab()
    tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again(texts)["input_ids"] == tokenizer(texts)["input_ids"]
    assert (again.pad_token_id, again.unk_token_id) == (0, 1)
