"""Calls a reader's function and describes its errors in words.

Apart from the checks, which the grader's sandbox hides from student code: the process in the
sandbox calls a student's function in the same way.

Modules:
    guarded: one call, with its errors in a reader's words
    arguments: copies that the function may change, and a description of the changes
    flop_counter: the cost of its matrix products, and its largest tensor
"""
