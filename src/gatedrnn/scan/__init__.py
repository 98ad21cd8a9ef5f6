"""h_t = a_t * h_(t-1) + b_t: the one recurrence of all scan cells."""

from gatedrnn.scan.functional import BackendUnavailable, accumulation_dtype, choose_backend, linear_scan

__all__ = ["BackendUnavailable", "accumulation_dtype", "choose_backend", "linear_scan"]
