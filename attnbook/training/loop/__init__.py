"""The training loop: `fit`, checkpoints, resuming, averaging of weights."""
