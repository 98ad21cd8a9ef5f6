"""A real series that ships with a library, for a first look without any file."""

import hashlib

import numpy as np

from gatedrnn.data.forecast.frequency import Frequency
from gatedrnn.data.forecast.table import Columns, SeriesTable
from gatedrnn.data.times import TimeForm
from gatedrnn.data.windows import OneSeries


def weekly_co2() -> SeriesTable:
    """Carbon dioxide above Mauna Loa in parts per million, 2,284 weeks from 1958 to 2001, 59 of them missing; as it
    ships with statsmodels (C. D. Keeling and T. P. Whorf, Scripps Institution of Oceanography)."""
    from statsmodels.datasets import co2

    data = co2.load_pandas().data
    values = data["co2"].to_numpy(np.float64)
    times = data.index.to_numpy().astype("datetime64[ns]")
    nothing = np.empty((len(values), 0))
    return SeriesTable(
        [OneSeries("co2", times, values, nothing, nothing, np.empty(0), TimeForm("dates"))],
        Frequency("W-SAT"), Columns(("co2",), None, "date", frequency="W-SAT"),
        {"name": "statsmodels' co2", "rows": len(values), "sha256": hashlib.sha256(values.tobytes()).hexdigest()},
    )  # fmt: skip
