"""Machinery of compiled kernels for a CPU (Numba), and the kernels that know no cell."""
