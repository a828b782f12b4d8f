"""Answers that are right and not written as the book writes them: loops instead of one product,
NumPy, other formulas for the same value, float64, other containers.

Those of a chapter are in `chCC_CHAPTER.py`; every such module is imported here.
"""

import importlib
import pkgutil

from .collection import RIGHT

__all__ = ["RIGHT"]

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
