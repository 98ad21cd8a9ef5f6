"""The fair comparison: matching, runs, numbers, report."""

from gatedrnn.extras import require

require("train")
