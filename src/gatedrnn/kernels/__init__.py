"""Compiled kernels by device. Each module is imported on first use, so that `import gatedrnn` stays light."""
