"""The recorded runs: ``attnbook.experiments`` is the package ``attnbook_runs``, and
``attnbook.experiments.X`` its module ``attnbook_runs.X``, the same object under both names.
"""

import importlib
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec

import attnbook_runs

_HERE = f"{__name__}."


class _SameModule(MetaPathFinder, Loader):
    """Finds ``attnbook.experiments.X`` in ``attnbook_runs.X``; without it, Python would read the
    file again and make a second module, with a second registry.
    """

    def find_spec(self, fullname, path=None, target=None):
        return ModuleSpec(fullname, self) if fullname.startswith(_HERE) else None

    def create_module(self, spec):
        module = importlib.import_module(f"attnbook_runs.{spec.name.removeprefix(_HERE)}")
        self._own = module.__spec__  # which the caller is about to replace
        return module

    def exec_module(self, module):
        module.__spec__ = self._own


sys.meta_path.insert(0, _SameModule())
sys.modules[__name__] = attnbook_runs
