"""Training runs: settings, loop, checkpoints."""
