"""LightGBM, which the baselines of several tasks need."""

from gatedrnn.errors import BackendUnavailable


def demand_lightgbm() -> None:
    """See that LightGBM can be loaded.

    Raises:
        BackendUnavailable: it lacks a library of the system.
    """
    try:
        import lightgbm  # noqa: F401
    except OSError as error:
        raise BackendUnavailable(
            f"LightGBM, the baseline of boosted trees, cannot be loaded: {error}; it needs the system's OpenMP library "
            "(on Debian: apt-get install libgomp1)"
        ) from error
