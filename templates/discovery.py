"""The modules of a package: what is in its folder, or in a folder below it, joins."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def modules_of(package: str) -> list[ModuleType]:
    """The modules and packages below a package, imported, in the order of their names.

    A package is followed by its own modules.
    Raises ImportError that names the module when one of them cannot be imported.
    """
    folder = importlib.import_module(package)
    modules = []
    for found in sorted(pkgutil.iter_modules(folder.__path__), key=lambda found: found.name):
        name = f"{package}.{found.name}"
        modules.append(_imported(name))
        if found.ispkg:
            modules += modules_of(name)
    return modules


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ImportError(f"module {name} cannot be imported: {reason}", name=name) from error
