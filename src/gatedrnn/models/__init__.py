"""Hugging Face models; importing this registers them with the Auto classes."""

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoModelForTimeSeriesPrediction,
    AutoModelForTokenClassification,
)

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
AutoModelForSequenceClassification.register(GatedRNNConfig, GatedRNNForSequenceClassification)
AutoModelForTokenClassification.register(GatedRNNConfig, GatedRNNForTokenClassification)

__all__ = [
    "GatedRNNCache", "GatedRNNConfig", "GatedRNNForCausalLM", "GatedRNNForForecasting",
    "GatedRNNForSequenceClassification", "GatedRNNForTokenClassification", "GatedRNNForecastConfig", "GatedRNNModel",
]  # fmt: skip
