"""Recorded runs on algorithmic and geometric tasks."""
