"""sktime's own checks of the adapter."""

import pytest
from sktime.utils.estimator_checks import check_estimator

from gatedrnn.estimators.sktime import SktimeClassifier, SktimeForecaster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [SktimeClassifier, SktimeForecaster])
def test_every_check_of_sktime_passes(kind):
    results = check_estimator(kind, raise_exceptions=False, verbose=False)
    assert len(results) > 100 and {name: said for name, said in results.items() if said != "PASSED"} == {}
