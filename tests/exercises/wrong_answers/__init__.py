"""Known wrong answers: the mistakes that readers make in each exercise, with words of the message
that the check must give.

The answers to the exercises of a section are in `chCC_CHAPTER/SECTION.py`, as the checks are; every
such module is imported here.
"""

import importlib
import pkgutil

from .collection import WRONG, WrongAnswer

__all__ = ["WRONG", "WrongAnswer"]

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
