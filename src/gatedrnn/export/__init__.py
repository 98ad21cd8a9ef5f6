"""Models for programs without Python."""

from gatedrnn.extras import require

require("export")
