"""Rounds of grading: judging, marks, feedback."""
