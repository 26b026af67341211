"""Lets an application written for Ryu run unchanged on os-ken.

`import ryu.base.app_manager` gives the module `os_ken.base.app_manager` itself, under both names,
and the class `RyuApp` is `OSKenApp`. It is an import hook, so nothing is installed and nothing is
copied; where ryu itself is the library in use, it does nothing.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

from controller import shim
from controller.library import LIBRARY

_OLD, _NEW = "ryu", "os_ken"
_REQUIRED_APP: list[str] = []


def _renamed(name: str) -> str:
    return _NEW + name[len(_OLD) :]


class RyuFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `ryu` and everything under it in os-ken."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """A spec for a module of ryu that os-ken has.

        Raises:
            ModuleNotFoundError: os-ken has no such module (its command line, wsgi and sample
                applications were removed).
        """
        if fullname != _OLD and not fullname.startswith(f"{_OLD}."):
            return None
        found = importlib.util.find_spec(_renamed(fullname))
        if found is None:
            raise ModuleNotFoundError(
                f"{fullname} is not part of os-ken, which runs Ryu applications here", name=fullname
            )
        return importlib.machinery.ModuleSpec(
            fullname, self, is_package=found.submodule_search_locations is not None
        )

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """The module of os-ken itself, whose own spec is kept for `exec_module` to put back."""
        name = _renamed(spec.name)
        __import__(name)
        module = sys.modules[name]
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to run: os-ken's import did; the module gets its own spec back."""
        alias = module.__spec__
        if alias is not None:
            module.__spec__ = alias.loader_state


def required_applications() -> tuple[str, ...]:
    """Applications that an imported module, such as `ryu.topology.api`, wants to be loaded too.

    The library notes such a wish on the module that it finds two Python frames up the stack
    (`require_app`). For an import through this hook, that is this module.
    """
    return tuple(_REQUIRED_APP)


def install() -> None:
    """Make `ryu` importable, once; where ryu is the library itself, there is nothing to do."""
    if LIBRARY == _OLD or any(isinstance(finder, RyuFinder) for finder in sys.meta_path):
        return
    shim.app_manager.RyuApp = shim.Application
    exceptions = importlib.import_module(f"{_NEW}.exception")
    exceptions.RyuException = exceptions.OSKenException  # type: ignore[attr-defined]
    sys.meta_path.insert(0, RyuFinder())
