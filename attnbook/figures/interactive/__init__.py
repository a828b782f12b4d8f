"""Figures to touch, for notebooks and pages: a file of Python and one of JavaScript for each."""
