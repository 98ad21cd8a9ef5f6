"""A forecaster takes frames and gives frames of the same library, reads on in a stream, and is scored from origins."""

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import gatedrnn
from gatedrnn.estimators import Forecaster

SMALL = {"horizon": 7, "total_steps": 6, "hidden_size": 8, "threads": 1}


def sales(steps=130, series=2):
    """A long frame of weekly waves, each at its own level."""
    days, drawn = pd.date_range("2024-01-01", periods=steps, freq="D"), np.random.default_rng(0)
    waves = np.sin(np.arange(steps) * 2 * np.pi / 7)
    parts = [
        pd.DataFrame({"shop": n, "day": days, "sold": 10 * n + 5 + waves + 0.1 * drawn.normal(size=steps)})
        for n in range(series)
    ]
    return pd.concat(parts, ignore_index=True)


def first(frame, steps):
    return frame.groupby("shop").head(steps)


@pytest.fixture(scope="module")
def fitted():
    return Forecaster(**SMALL).fit(first(sales(), 110), series="shop", target="sold")


def test_the_names_and_types_that_came_in_come_out(fitted):
    told = fitted.predict()
    assert told.columns.tolist() == ["shop", "day", "sold", "sold_0.1", "sold_0.9"] and len(told) == 14
    assert told.dtypes[["shop", "day"]].tolist() == sales().dtypes[["shop", "day"]].tolist()
    assert told.day.iloc[0] == pd.Timestamp("2024-04-20") and (told["sold_0.1"] <= told["sold_0.9"]).all()


def test_frames_of_other_libraries_come_back_as_theirs():
    table = pa.Table.from_pandas(first(sales(), 60), preserve_index=False)
    told = Forecaster(**SMALL).fit(table, series="shop", target="sold").predict()
    assert isinstance(told, pa.Table) and told.schema.field("day").type == table.schema.field("day").type


def test_a_series_of_pandas_has_its_times_as_index():
    one = sales(60, 1).set_index("day").sold
    told = Forecaster(**SMALL).fit(one).predict()
    assert told.columns.tolist() == ["day", "sold", "sold_0.1", "sold_0.9"]


def test_it_forecasts_as_the_function_does(tmp_path):
    frame = first(sales(), 80)
    told = Forecaster(**SMALL).fit(frame, series="shop", target="sold").predict()
    settings = SMALL | {"series_column": "shop", "target": "sold"}
    future = gatedrnn.forecast(frame, output=tmp_path / "run", baselines="none", progress=False, **settings)
    assert np.array_equal(told[["sold", "sold_0.1"]], future.table[["sold", "sold_0.1"]])


def test_rows_that_came_are_read_on_and_forecasts_begin_after_them(fitted):
    live, frame = pickle.loads(pickle.dumps(fitted)), sales()
    came = [frame[frame.day == day] for day in pd.date_range("2024-04-20", periods=3)]
    for rows in came:
        live.update(rows)
    together = pickle.loads(pickle.dumps(fitted)).update(pd.concat(came))
    assert np.allclose(live.predict()["sold"], together.predict()["sold"], rtol=1e-5)
    assert live.predict().day.iloc[0] == pd.Timestamp("2024-04-23")
    assert np.abs(live.predict()["sold"] - live.predict(first(frame, 113))["sold"]).max() < 0.5
    before = live.predict()
    for rows, said in (
        (came[0], "its times do not continue: 2024-04-23 is next, and 2024-04-20 came"),
        (came[2].head(1).assign(shop=9, day=pd.Timestamp("2024-04-23")), "series 9: was not there"),
        (came[2].drop(columns="sold"), "no column 'sold'"),
    ):
        with pytest.raises(ValueError, match=said):
            live.update(rows)
    assert live.predict().equals(before)


def test_each_forecast_from_many_origins_stands_beside_what_came(fitted):
    frame = sales()
    found = fitted.backtest(frame, stride=3)
    actual = found.forecasts.merge(frame, on=["shop", "day"], suffixes=("_told", ""))
    assert np.array_equal(actual.actual, actual.sold) and found.forecasts.origin.min() > pd.Timestamp("2024-04-18")
    scores = found.scores.set_index("method")
    off = np.abs(found.forecasts["sold"] - found.forecasts.actual).mean()
    assert scores.mae["model"] == pytest.approx(off) and scores.mae["last value"] > scores.mae["model"]
    assert fitted.backtest(frame, origins=1).forecasts.groupby("shop").size().tolist() == [7, 7]
    with pytest.raises(ValueError, match="no series has 7 steps"):
        fitted.backtest(first(frame, 4))


def test_known_covariates_of_the_steps_ahead_come_with_the_frame_or_apart():
    frame = sales(90).assign(sale=lambda rows: (rows.day.dt.day % 5 == 0).astype(float))
    past, ahead = first(frame, 80), frame.groupby("shop").tail(10).drop(columns="sold")
    model = Forecaster(**SMALL).fit(past, series="shop", target="sold", known="sale")
    told = model.predict(known=ahead)
    whole = pd.concat([past, ahead]).sort_values(["shop", "day"])
    assert np.array_equal(told["sold"], model.predict(whole)["sold"])
    with pytest.raises(ValueError, match="'sale' has no value"):
        model.predict()


def test_it_is_cloned_and_refused_before_it_is_fitted(fitted):
    empty = clone(fitted)
    assert empty.get_params()["horizon"] == 7
    for call in (empty.predict, lambda: empty.update(sales()), lambda: empty.backtest(sales()), empty.plot):
        with pytest.raises(NotFittedError):
            call()
    with pytest.raises(ValueError, match="no column 'price'"):
        empty.fit(sales(40), target="price", series="shop")
    assert list(fitted.plot()) == ["0: the next steps", "1: the next steps"]
