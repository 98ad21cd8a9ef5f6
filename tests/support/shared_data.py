"""Real data of the machine's, which tests may use where they are there."""

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
needs_shared_data = pytest.mark.skipif(not SHARED.is_dir(), reason=f"the real data are not at {SHARED}")
