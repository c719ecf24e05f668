"""By which name does a module of tasks import the gate? The wheel's, so that it runs here as it is.

In a checkout the package is called ``workers``. Its modules are the same objects under both names: a second
copy of them would be a second gate in one process.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType

import workers

OWN, HERE = "sluicegate", "workers"


class _SameModule(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return spec_from_loader(fullname, self) if fullname.startswith(f"{OWN}.") else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(HERE + spec.name.removeprefix(OWN))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        alias = module.__spec__  # importlib has put it in the place of the module's own
        module.__spec__ = alias.loader_state if alias else None


sys.meta_path.insert(0, _SameModule())
sys.modules[__name__] = workers
