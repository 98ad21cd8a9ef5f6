"""The window into a trained model: one page that runs it step by step in a browser and draws its gates."""

from gatedrnn.extras import require

require("export")
