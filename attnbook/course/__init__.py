"""The book as course material: one source, from which the student's and the instructor's
notebooks are made and run.
"""
