"""Training runs: settings, loop, checkpoints."""

from gatedrnn.extras import require

require("train")
