"""A linear model of a text's n-grams beside the network: everything it reads follows from the token numbers."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from gatedrnn.models.configuration import GatedRNNConfig
from gatedrnn.shapes import Flags

_MIN_NORM = 1e-12
"""Length of a text's features, for a text without any."""


class LinearPath(nn.Module):
    """Logits, or numbers, from TF-IDF of tokens, pairs of neighbouring tokens, and character n-grams within tokens.

    A feature that occurs c times in a text counts 1 + log(c), times its `idf`; tokens with their pairs, and character
    grams, are each brought to length 1 (as scikit-learn's `TfidfVectorizer(sublinear_tf=True)` does for each of two
    kinds of features). Its weights are fitted before the network is trained, and are not trained with it.

    Of texts without blanks between words, whose tokens are letters, three neighbouring tokens are a feature too, and
    all features are brought to length 1 together: `config.linear_path` then has a number of "triples".

    Features are numbered: tokens as the vocabulary numbers them, then pairs, then triples, then grams.
    """

    title = "TF-IDF with logistic regression"
    """The name in a sentence on what the network adds."""

    def __init__(self, config: GatedRNNConfig) -> None:
        super().__init__()
        assert config.vocab_size is not None and config.linear_path is not None
        self.tokens, self.padding = config.vocab_size, config.pad_token_id
        sizes = config.linear_path
        self.words = config.vocab_size + sizes["pairs"] + sizes.get("triples", 0)
        self.features = self.words + sizes["grams"]
        self.one_length = self.features if "triples" in sizes else self.words
        """The number of the first features that are brought to length 1 together; the others are by themselves."""
        self.pairs: Tensor
        self.triples: Tensor | None
        self.grams: Tensor
        # A pair is a number: first · tokens + second; rising, so that one is found by halving.
        self.register_buffer("pairs", torch.zeros(sizes["pairs"], dtype=torch.int64))
        # A triple likewise: the number of its first two among pairs · tokens + third.
        triples = torch.zeros(sizes["triples"], dtype=torch.int64) if "triples" in sizes else None
        self.register_buffer("triples", triples)
        self.register_buffer("grams", torch.zeros(config.vocab_size, sizes["grams_per_token"], dtype=torch.int32))
        self.idf = nn.Parameter(torch.empty(self.features), requires_grad=False)
        self.weight = nn.Parameter(torch.empty(config.num_labels, self.features), requires_grad=False)
        self.bias = nn.Parameter(torch.empty(config.num_labels), requires_grad=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Every class is as likely as any other, whatever the text, and every number 0."""
        nn.init.ones_(self.idf)
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, input_ids: Tensor, mask: Flags | None) -> Tensor:
        """(batch, time) to (batch, labels): logits, or numbers in the units of their labels."""
        ids = self.features_in(input_ids, mask)
        sums = self._in_dense_rows if torch.compiler.is_exporting() else self._in_sparse_rows
        return sums(ids) + self.bias

    def features_in(self, input_ids: Tensor, mask: Flags | None) -> Tensor:
        """The features of each text as often as they occur in it, (batch, places); the number of all features where a
        place has none."""
        absent = self.features
        valid = torch.ones_like(input_ids, dtype=torch.bool) if mask is None else mask
        tokens = torch.where(valid, input_ids, absent)
        both = valid[:, 1:] & valid[:, :-1]
        known, place = _binary_search(self.pairs, input_ids[:, :-1] * self.tokens + input_ids[:, 1:])
        features = [tokens, torch.where(both & known, place + self.tokens, absent)]
        if self.triples is not None:
            first_two = both & known
            known, place = _binary_search(self.triples, place[:, :-1] * self.tokens + input_ids[:, 2:])
            known = known & first_two[:, :-1] & valid[:, 2:]
            features.append(torch.where(known, place + (self.tokens + len(self.pairs)), absent))
        grams = self.grams[input_ids].long()
        grams = torch.where(valid.unsqueeze(2) & (grams > 0), grams + (self.words - 1), absent)
        return torch.cat([*features, grams.flatten(1)], dim=1)

    def _in_sparse_rows(self, ids: Tensor) -> Tensor:
        """(batch, labels): the sum over each text's features of weight times TF-IDF."""
        rows = torch.arange(len(ids), device=ids.device).unsqueeze(1).expand_as(ids)
        # One number for each pair of row and feature: a single sort counts the features of all texts.
        keys, counts = torch.unique((rows * (self.features + 1) + ids)[ids < self.features], return_counts=True)
        row, feature = keys // (self.features + 1), keys % (self.features + 1)
        values = (1 + counts.to(self.idf.dtype).log()) * self.idf[feature]
        block = 2 * row + (feature >= self.one_length)
        squares = values.new_zeros(2 * len(ids)).index_add(0, block, values.square())
        values = values / squares[block].sqrt().clamp(min=_MIN_NORM)
        return values.new_zeros(len(ids), len(self.bias)).index_add(
            0, row, values.unsqueeze(1) * self.weight.t()[feature]
        )

    def _in_dense_rows(self, ids: Tensor) -> Tensor:
        """Compute the same by operations that ONNX has, which takes (batch, features) numbers of memory."""
        counts = self.idf.new_zeros(ids.shape[0], self.features + 1)
        counts = counts.scatter_add(1, ids, torch.ones_like(ids, dtype=counts.dtype))[:, : self.features]
        values = torch.where(counts > 0, 1 + counts.clamp(min=1).log(), 0) * self.idf
        kinds = values[:, : self.one_length], values[:, self.one_length :]
        return torch.cat([normalize(block, eps=_MIN_NORM) for block in kinds], dim=1) @ self.weight.t()


class _SearchResult(NamedTuple):
    """The places of numbers in a table."""

    known: Tensor
    place: Tensor


def _binary_search(table: Tensor, numbers: Tensor) -> _SearchResult:
    """Find numbers in a rising table, by halving, since ONNX has no search."""
    size = len(table)
    if not size:
        return _SearchResult(torch.zeros_like(numbers, dtype=torch.bool), torch.zeros_like(numbers))
    index = torch.zeros_like(numbers)
    for power in reversed(range(size.bit_length())):
        further = index + (1 << power)
        index = torch.where((further < size) & (table[further.clamp(max=size - 1)] <= numbers), further, index)
    return _SearchResult(table[index] == numbers, index)
