"""An embedding of tokens that is composed of the characters in them."""

import torch
from torch import Tensor, nn

from gatedrnn.shapes import Series


class CharacterEmbedding(nn.Embedding):
    """A token's own vector, and the vectors of the character n-grams in it.

    e(token) = vector + sqrt(n) * mean of its n gram vectors, so that both parts have one spread however long a token
    is. Which grams a token has is a table, `grams`, that belongs to the tokenizer; number 0 is no gram.

    Reference: Bojanowski et al. 2017 (arXiv:1607.04606), whose vectors are the sum over words' grams.

    Args:
        tokens: of the vocabulary.
        features: of a vector.
        padding: the token whose vector is 0 and stays it; None for none.
        grams: that there are.
        grams_per_token: columns of the table.
    """

    def __init__(self, tokens: int, features: int, padding: int | None, grams: int, grams_per_token: int) -> None:
        super().__init__(tokens, features, padding)
        self.parts = nn.Embedding(grams + 1, features, padding_idx=0)
        self.grams: Tensor
        self.register_buffer("grams", torch.zeros(tokens, grams_per_token, dtype=torch.int32))

    def forward(self, input: Tensor) -> Series:
        """(batch, time) to (batch, time, features)."""
        grams = self.grams[input]  # (batch, time, grams_per_token)
        present = (grams > 0).unsqueeze(-1)
        # sqrt(n) times the mean is the sum over sqrt(n).
        count = present.sum(-2).clamp(min=1).to(self.weight.dtype)
        if torch.compiler.is_exporting():
            return super().forward(input) + torch.where(present, self.parts(grams), 0).sum(-2) * count.rsqrt()
        # The same sum without a vector for each gram of each token in memory.
        bags = nn.functional.embedding_bag(grams.flatten(0, -2), self.parts.weight, mode="sum", padding_idx=0)
        return super().forward(input) + bags.unflatten(0, input.shape) * count.rsqrt()
