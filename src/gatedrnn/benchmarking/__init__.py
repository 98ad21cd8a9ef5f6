"""The cost of layers, as ratios: to their input projection, to memory and to torch's own layers."""
