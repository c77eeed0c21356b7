"""The modules of a package: what is in its folder joins."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def modules_of(package: str) -> list[ModuleType]:
    """The modules and packages directly inside a package, imported, in the order of their names.

    Raises ImportError that names the module when one of them cannot be imported.
    """
    folder = importlib.import_module(package)
    names = sorted(found.name for found in pkgutil.iter_modules(folder.__path__))
    return [_imported(f"{package}.{name}") for name in names]


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ImportError(f"module {name} cannot be imported: {reason}", name=name) from error
