"""Finding and loading NVIDIA's libraries, from Python packages or from the system."""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path

from autoq.errors import LibraryError

# What the pip packages call the folders that NVIDIA's libraries lie in.
_PATTERN = "*/lib/{}.so.*"


def load(name: str, needs: tuple[str, ...] = ()) -> ctypes.CDLL:
    """The library `name` ("libcudnn"), after those it opens by name at run time.

    Pip's copy (package `nvidia`) comes before the system's. Raises LibraryError where there is
    none.
    """
    for needed in needs:
        _open(needed)
    return _open(name)


def _open(name: str) -> ctypes.CDLL:
    packaged = [
        path for folder in _package_folders() for path in folder.glob(_PATTERN.format(name))
    ]
    for path in sorted(packaged, key=lambda path: len(path.name)):
        return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    for suffix in (".so.13", ".so.12", ".so.9", ".so"):
        try:
            return ctypes.CDLL(name + suffix, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
    raise LibraryError(f"{name} was not found")


def _package_folders() -> list[Path]:
    spec = importlib.util.find_spec("nvidia")
    return [] if spec is None else [Path(path) for path in spec.submodule_search_locations or ()]
