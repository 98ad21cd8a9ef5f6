"""What a layer costs, as ratios: to its input projection, to memory, to torch's own layers and to other libraries."""
