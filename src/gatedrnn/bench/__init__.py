"""What a layer costs, as ratios: to its input projection, to memory and to torch's own layers."""
