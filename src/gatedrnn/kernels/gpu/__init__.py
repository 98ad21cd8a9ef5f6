"""Machinery of Triton kernels: launches and operations on tiles; CUDA builds of torch bring Triton along."""
