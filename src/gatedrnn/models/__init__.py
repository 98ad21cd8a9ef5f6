"""Hugging Face models; importing this registers them with the Auto classes."""

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from gatedrnn.models.configuration import GatedRNNConfig
from gatedrnn.models.modeling import (
    GatedRNNForSequenceClassification,
    GatedRNNForTokenClassification,
    GatedRNNModel,
)

AutoConfig.register(GatedRNNConfig.model_type, GatedRNNConfig)
AutoModel.register(GatedRNNConfig, GatedRNNModel)
AutoModelForSequenceClassification.register(GatedRNNConfig, GatedRNNForSequenceClassification)
AutoModelForTokenClassification.register(GatedRNNConfig, GatedRNNForTokenClassification)

__all__ = ["GatedRNNConfig", "GatedRNNForSequenceClassification", "GatedRNNForTokenClassification", "GatedRNNModel"]
