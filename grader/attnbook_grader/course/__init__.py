"""Courses, assignments and exercises, and classes to try the grader on."""
