"""Texts without blanks between words: what is told of their letters, and the tokens that they are read by."""

import unicodedata

import numpy as np
import pytest
from text_targets import write_lines
from transformers import AutoTokenizer

from gatedrnn.data import data_settings, load_task
from gatedrnn.data.scripts import MIN_SHARE, undivided_share
from gatedrnn.data.tokenizers import CONTINUES, UNK, learn_tokenizer

LETTERS = {
    "Chinese": ("这本书很好", "这 本 书 很 好"),
    "Chinese outside the first plane": ("𠮷野家很好", "𠮷 野 家 很 好"),
    "Japanese": ("映画はデータ々", "映 画 は デ ー タ 々"),
    "Japanese in halves": ("ｶﾀｶﾅ", "ｶ ﾀ ｶ ﾅ"),
    "Thai": ("หนังดีมาก", "ห นั ง ดี ม า ก"),
    "Lao": ("ດີຫຼາຍ", "ດີ ຫຼ າ ຍ"),
    "Khmer": ("ល្អណាស់", "ល្ អ ណា ស់"),
    "Burmese": ("ကောင်းတယ်", "ကော င်း တ ယ်"),
}
"""A text of each script, and its letters with their signs."""
DIVIDED = {
    "English": "a good film", "Korean": "정말 좋은 영화", "Hindi": "यह फिल्म अच्छी है", "Arabic": "فيلم جيد جدا",
    "Tibetan": "བོད་ཡིག་ཡག་པོ།", "marks and digits": "12 !?", "nothing": "",
}  # fmt: skip


@pytest.mark.parametrize("name", LETTERS)
def test_letters_of_scripts_without_blanks_are_counted_and_read_one_by_one(name):
    text, expected = LETTERS[name]
    assert undivided_share([text]) == 1
    assert learn_tokenizer("pieces", [text], 1, 0, undivided=True).tokenize(text) == expected.split()


@pytest.mark.parametrize("name", DIVIDED)
def test_scripts_with_blanks_or_marks_between_words_or_syllables_have_no_such_letters(name):
    text = DIVIDED[name]
    assert undivided_share([text]) == 0
    found = [learn_tokenizer("pieces", [text or "a"], 1, 0, undivided=own).tokenize(text) for own in (False, True)]
    assert found[0] == found[1]


def test_the_share_is_of_all_letters_and_texts_are_gone_through_once():
    texts = (text for text in ("好 2 的, ab!", "café", "ที่", "한국"))
    assert undivided_share(texts) == 5 / (5 + 2 + 4 + 2)
    assert undivided_share(texts) == 0, "an iterator is read once and nothing is kept of it"


def test_among_letters_words_with_blanks_are_words_and_pieces_as_elsewhere_and_unseen_signs_are_read_apart(tmp_path):
    texts = ["3星级 Hotel很好, hotels", "한국어로 씀 WiFi不好", "ดี มื"]
    tokenizer = learn_tokenizer("pieces", texts, 1, 0, undivided=True)
    assert tokenizer.tokenize("HOTEL很好3") == ["hotel", "很", "好", "3"]
    assert tokenizer.tokenize("한국어로") == ["한국어로"] and tokenizer.tokenize("hotelwifi")[0] == "hotel"
    assert tokenizer.tokenize("มี") == ["ม", "##ี"], "a letter with a sign that training had of others"
    assert tokenizer.tokenize("书") == [UNK]
    assert not any("\u4e00" <= token[-1] <= "\u9fff" for token in tokenizer.get_vocab() if token.startswith(CONTINUES))
    tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again(texts)["input_ids"] == tokenizer(texts)["input_ids"]


def test_a_text_of_any_length_without_a_mark_is_read_to_its_end():
    text = "ดี" * 300
    assert learn_tokenizer("pieces", [text, "มา"], 1, 0, undivided=True).tokenize(text) == ["ดี"] * 300


@pytest.mark.parametrize(
    ("text", "undivided"), [("很好的书", True), ("a good film", False), ("a very good film 好", False)]
)
def test_a_task_of_texts_reads_by_letters_where_they_are_a_notable_share_and_says_so(text, undivided, tmp_path):
    rows = [{"text": f"{text} {n}", "label": "ab"[n % 2]} for n in range(40)]
    file = write_lines(tmp_path / "rows.jsonl", rows)
    data = load_task(data_settings("text-classification", train_file=file, tokenizer="pieces", min_count=1))
    assert data.undivided == undivided == (data.undivided_share >= MIN_SHARE)
    assert any("without blanks between words" in note for note in data.notes) == undivided
    words = text.split()[:1] if not undivided else list(text)
    found = data.tokenizer.convert_ids_to_tokens(data.train.inputs[0][: len(words)])
    assert found == words and np.isin(data.train.inputs[0], data.tokenizer.unk_token_id).sum() == 0
    assert unicodedata.normalize("NFC", text) == text
