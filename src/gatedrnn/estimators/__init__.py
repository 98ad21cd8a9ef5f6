"""scikit-learn's protocol: classifiers and regressors of series and texts, and a forecaster of tables."""

from gatedrnn.extras import require

require("train")

from gatedrnn.estimators.base import Settings
from gatedrnn.estimators.forecaster import Backtest, Forecaster
from gatedrnn.estimators.series import SeriesClassifier, SeriesRegressor
from gatedrnn.estimators.text import TextClassifier, TextRegressor

__all__ = [
    "Backtest", "Forecaster", "SeriesClassifier", "SeriesRegressor", "Settings", "TextClassifier", "TextRegressor",
]  # fmt: skip
