"""Generation of kernels' source from functions of tensors: trace, graph, rows. It knows no cell."""
