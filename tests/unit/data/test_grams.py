"""Grams of tokens and pairs of texts are those counted by hand, the heaviest first."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from gatedrnn.tasks.text.parts import frequent_pairs, gram_table, grams_in


def test_a_word_has_marks_at_its_ends_a_later_part_of_one_has_none_and_special_tokens_have_no_grams():
    assert grams_in("an", 1, 4) == ["<", "a", "n", ">", "<a", "an", "n>", "<an", "an>", "<an>"]
    assert grams_in("##ing", 2, 3) == ["in", "ng", "ing"] and grams_in("ㅋㅋ", 2, 2) == ["<ㅋ", "ㅋㅋ", "ㅋ>"]
    assert grams_in("##", 1, 2)[0] == "<" and grams_in("<pad>", 1, 4) == grams_in("<unk>", 1, 4) == []


@pytest.mark.parametrize("most, least", [(1_000, 1), (1_000, 3), (7, 1)])
def test_a_table_holds_the_heaviest_grams_of_each_token_and_a_token_of_no_weight_brings_none(most, least):
    tokens, weights = ["<pad>", "<unk>", "banana", "bandana", "##ana", "an", "zebra"], [9, 9, 2, 1, 3, 1, 0]
    found = gram_table(tokens, weights, 2, 3, most=most, least=least)
    weight = Counter()
    for token, own in zip(tokens, weights, strict=True):
        weight.update({gram: own for gram in set(grams_in(token, 2, 3)) if own})
    kept = sorted((gram for gram in weight if weight[gram] >= least), key=lambda gram: (-weight[gram], gram))[:most]
    assert found.grams == len(kept) <= most
    for token, row in zip(tokens, found.table, strict=True):
        assert [kept[number - 1] for number in row[row > 0]] == [gram for gram in grams_in(token, 2, 3) if gram in kept]
    assert found.table.shape[1] == max((row > 0).sum() for row in found.table) and found.table.dtype == np.int32


def test_pairs_are_those_within_texts_the_most_frequent_ones_in_rising_order():
    random = np.random.default_rng(0)
    texts = [random.integers(0, 5, size) for size in (0, 1, 2, 30, 40)]
    counts = Counter(int(a) * 5 + int(b) for text in texts for a, b in pairwise(text))
    assert frequent_pairs(texts, 5, most=100).tolist() == sorted(counts)
    few = frequent_pairs(texts, 5, most=4)
    assert few.tolist() == sorted(few) and len(few) == 4
    assert min(counts[pair] for pair in few) >= max(counts[pair] for pair in counts if pair not in few)
    assert not len(frequent_pairs([np.array([1])], 5, most=4))
