"""Hugging Face models; importing this registers them with the Auto classes."""

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from gatedrnn.models.cache import GatedRNNCache
from gatedrnn.models.causal_lm import GatedRNNForCausalLM
from gatedrnn.models.configuration import GatedRNNConfig
from gatedrnn.models.modeling import (
    GatedRNNForSequenceClassification,
    GatedRNNForTokenClassification,
    GatedRNNModel,
)

AutoConfig.register(GatedRNNConfig.model_type, GatedRNNConfig)
AutoModel.register(GatedRNNConfig, GatedRNNModel)
AutoModelForCausalLM.register(GatedRNNConfig, GatedRNNForCausalLM)
AutoModelForSequenceClassification.register(GatedRNNConfig, GatedRNNForSequenceClassification)
AutoModelForTokenClassification.register(GatedRNNConfig, GatedRNNForTokenClassification)

__all__ = [
    "GatedRNNCache", "GatedRNNConfig", "GatedRNNForCausalLM", "GatedRNNForSequenceClassification",
    "GatedRNNForTokenClassification", "GatedRNNModel",
]  # fmt: skip
