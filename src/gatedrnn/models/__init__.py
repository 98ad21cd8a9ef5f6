"""Hugging Face models; importing this registers them with the Auto classes."""

from gatedrnn.extras import require

require("train")

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoModelForTimeSeriesPrediction,
    AutoModelForTokenClassification,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from gatedrnn.models.cache import GatedRNNCache
from gatedrnn.models.causal_lm import GatedRNNForCausalLM
from gatedrnn.models.configuration import GatedRNNConfig
from gatedrnn.models.forecast_configuration import GatedRNNForecastConfig
from gatedrnn.models.forecasting import GatedRNNForForecasting
from gatedrnn.models.modeling import (
    GatedRNNForSequenceClassification,
    GatedRNNForTokenClassification,
    GatedRNNModel,
)

AutoConfig.register(GatedRNNConfig.model_type, GatedRNNConfig)
AutoConfig.register(GatedRNNForecastConfig.model_type, GatedRNNForecastConfig)
AutoModel.register(GatedRNNConfig, GatedRNNModel)
AutoModelForTimeSeriesPrediction.register(GatedRNNForecastConfig, GatedRNNForForecasting)
AutoModelForCausalLM.register(GatedRNNConfig, GatedRNNForCausalLM)
# The Trainer smooths the loss of shifted labels for names in this table alone, and `register` does not fill it.
MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[GatedRNNConfig.model_type] = GatedRNNForCausalLM.__name__
AutoModelForSequenceClassification.register(GatedRNNConfig, GatedRNNForSequenceClassification)
AutoModelForTokenClassification.register(GatedRNNConfig, GatedRNNForTokenClassification)

__all__ = [
    "GatedRNNCache", "GatedRNNConfig", "GatedRNNForCausalLM", "GatedRNNForForecasting",
    "GatedRNNForSequenceClassification", "GatedRNNForTokenClassification", "GatedRNNForecastConfig", "GatedRNNModel",
]  # fmt: skip
