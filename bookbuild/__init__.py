"""The tool that makes the notebooks of the book from their sources, runs them and checks them.

Modules:
    source: a chapter's source as the student's and the instructor's notebook
    execute: runs a notebook in the environment of the book
    measure: time and memory of a run, against what the notebook declares
    nondeterminism: which cells print values that differ from machine to machine
    rules: what holds for every notebook of the book
"""
