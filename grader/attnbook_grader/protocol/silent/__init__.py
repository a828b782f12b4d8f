"""What stands in the sandbox for the checks, the door to them, and the hidden parts of the grader:
nothing.

Checks, seeds and right results stay outside.
"""


def check(id, answer, seed=0):
    """Does nothing: the grader asks for the answer itself."""


grade = judge = check
