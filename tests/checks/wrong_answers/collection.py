"""Where the wrong answers are collected: id of the exercise -> list of (name, function, words of
the verdict).
"""

from collections import defaultdict

WRONG = defaultdict(list)


def wrong(id, words):
    """The decorated function is a wrong answer to `id`; the verdict must contain `words`."""

    def add(function):
        WRONG[id].append((function.__name__, function, words))
        return function

    return add
