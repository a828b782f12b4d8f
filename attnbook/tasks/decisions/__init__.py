"""Environments to act in: bandits and decision processes, with their optimal policies."""
