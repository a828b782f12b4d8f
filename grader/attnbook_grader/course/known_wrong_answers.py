"""The book's known wrong answers as cells of a notebook: what a class would hand in, with the
words that the check must say.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from .exercises import Task

FOLDER = "tests/checks/wrong_answers"
_IMPORT = "from ..collection import wrong\n"
_COLLECT = """_collected = []


def wrong(id, words):
    def keep(function):
        _collected.append((id, function))
        return function
    return keep

"""


@dataclass(frozen=True)
class WrongAnswer:
    """name: of the function in the book's tests; words: what the verdict must contain; code: a
    cell that defines the answer.
    """

    name: str
    words: str
    code: str


def wrong_answers(book: Path, tasks: list[Task]) -> dict[str, list[WrongAnswer]]:
    """{exercise id: its known wrong answers}, from the tests in a checkout of the book.

    Raises ValueError when the checkout has no such tests, or an exercise has no wrong answer.
    """
    folder, wanted = book / FOLDER, {task.id: task for task in tasks}
    if not folder.is_dir():
        raise ValueError(
            f"book: there is no folder {folder}; the known wrong answers are part of the book's "
            f"checkout"
        )
    found = defaultdict(list)
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if _IMPORT not in text:
            continue
        text = text.replace(_IMPORT, _COLLECT)
        scope = {"__name__": f"wrong_answers_{path.stem}"}
        exec(
            compile(
                text.replace(
                    "_collected.append((id, function))", "_collected.append((id, function, words))"
                ),
                str(path),
                "exec",
            ),
            scope,
        )
        counts = defaultdict(int)
        for id, function, words in scope["_collected"]:
            if id in wanted:
                pick = (
                    f"{wanted[id].function} = [function for id, function in _collected if id "
                    f"== {id!r}][{counts[id]}]\n"
                )
                found[id].append(WrongAnswer(function.__name__, words, f"{text}\n\n{pick}"))
            counts[id] += 1
    for id in wanted:
        if not found[id]:
            raise ValueError(f"book: the exercise {id} has no known wrong answer in {folder}")
    return dict(found)
