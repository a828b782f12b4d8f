"""The exercises of the book: what judges an answer, and how it is called.

Packages:
    checks: one function for each exercise; the grader's sandbox hides them from students' code
    answers: how a reader's function is called, for the notebook and the sandbox alike
"""
