"""Optimizers, learning rate schedules, and gradients through time."""
