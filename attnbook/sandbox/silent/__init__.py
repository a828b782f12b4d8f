"""What `attnbook.checks` and `attnbook.course` are inside the sandbox: nothing.

Checks, seeds and right results stay outside.
"""


def check(id, answer, seed=0):
    """Does nothing: the grader asks for the answer itself."""


grade = judge = check
