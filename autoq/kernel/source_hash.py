"""A hash of the Python source behind a module, which changes when any of it does."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
from pathlib import Path

from autoq.kernel.parsing import PARSING


@functools.cache
def source_hash(module: str) -> str:
    """Hash of `module` and of every module of its package and of autoq that it imports.

    Those count that are imported however indirectly.
    Raises ModuleNotFoundError for a module that has no source file.
    """
    if _source(module) is None:
        raise ModuleNotFoundError(f"{module} has no source file")
    packages = {module.partition(".")[0], "autoq"}
    pending, seen = [module], {}
    while pending:
        name = pending.pop()
        path = _source(name)
        if name in seen or path is None:
            continue
        text = path.read_bytes()
        seen[name] = hashlib.sha256(text).hexdigest()
        pending += [found for found in _imports(text) if found.partition(".")[0] in packages]
    lines = "\n".join(f"{name} {digest}" for name, digest in sorted(seen.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


@functools.cache
def _source(name: str) -> Path | None:
    """The file of a module; None when `name` is something inside one."""
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None
    return Path(spec.origin) if spec is not None and spec.has_location and spec.origin else None


@functools.cache
def _imports(source: bytes) -> tuple[str, ...]:
    """Names that a module imports; absolute imports only, which is all that this project has."""
    with PARSING:
        tree = ast.parse(source)
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return tuple(names)
