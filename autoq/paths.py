"""Checks on paths that a user gives, before any work is done."""

from __future__ import annotations

import os
from pathlib import Path

from autoq.errors import InputError


def require_writable(path: Path) -> None:
    """Raise InputError unless a file can be written or made at `path`; makes nothing."""
    folder = path.parent
    if not folder.is_dir():
        raise InputError(f"{path}: the folder {folder} does not exist; create it first")
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name a file")
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: is no ordinary file; name another")
    if path.exists() and not os.access(path, os.W_OK):
        raise InputError(f"{path}: cannot be written; check its permissions")
    if not path.exists() and not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{path}: the folder {folder} cannot be written; choose another output")
