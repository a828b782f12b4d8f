"""Calling a reader's function: one call at a time, with what goes wrong in words.

Not a part of `attnbook.checks`, which the grader's sandbox hides from student code: the process in
the sandbox calls a student's function in the same way.

Modules:
    guarded: one call, its errors described as a reader understands them
    arguments: copies that the function may change, and what it changed in them
    flop_counter: the matrix products that it computes and the largest tensor that it makes
"""
