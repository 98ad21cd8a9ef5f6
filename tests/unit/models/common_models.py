"""The description of our models for transformers' own tests; run by test_transformers_tests.py beside their files."""

import unittest

import torch
from common.test_modeling_common import ModelTesterMixin, ids_tensor
from transformers.models.auto import modeling_auto

from gatedrnn.models import (
    GatedRNNConfig,
    GatedRNNForCausalLM,
    GatedRNNForSequenceClassification,
    GatedRNNForTokenClassification,
    GatedRNNModel,
)

for name, model in {
    "MODEL_MAPPING_NAMES": GatedRNNModel,
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES": GatedRNNForCausalLM,
    "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES": GatedRNNForSequenceClassification,
    "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES": GatedRNNForTokenClassification,
}.items():
    getattr(modeling_auto, name)["gatedrnn"] = model.__name__  # by which they choose the labels


class Small:
    """A configuration and a batch."""

    batch_size, seq_length, num_hidden_layers, hidden_size, is_training = 3, 7, 2, 16, True

    def __init__(self, **settings):
        self.settings = settings

    def prepare_config_and_inputs_for_common(self):
        tokens = ids_tensor([self.batch_size, self.seq_length], 30)
        config = GatedRNNConfig(
            vocab_size=31, hidden_size=self.hidden_size, embedding_size=16, num_hidden_layers=self.num_hidden_layers,
            **self.settings,
        )  # fmt: skip
        return config, {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}


class StacksTest(ModelTesterMixin, unittest.TestCase):
    all_model_classes = (
        GatedRNNModel, GatedRNNForCausalLM, GatedRNNForSequenceClassification, GatedRNNForTokenClassification,
    )  # fmt: skip
    has_attentions = False

    def setUp(self):
        self.model_tester = Small(cell="mingru")
        # The layers of one cell are one stack, which runs at once: its hidden states are the embeddings and the top.
        self.model_tester.expected_num_hidden_layers = 2

    def test_generation_tester_mixin_inheritance(self):
        self.skipTest("their tests of generation are not in the source distribution")


class BlocksTest(StacksTest):
    def setUp(self):
        self.model_tester = Small(cell="lstm", block=True)
