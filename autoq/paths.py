"""Checks on paths that a user gives, before any work is done."""

from __future__ import annotations

import os
from pathlib import Path

from autoq.errors import InputError


def require_writable(path: Path) -> None:
    """Raise InputError unless a file can be made at `path`; makes nothing."""
    folder = path.parent
    if not folder.is_dir():
        raise InputError(f"{path}: the folder {folder} does not exist")
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name a file")
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: is no ordinary file; name another")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise InputError(f"{path}: no permission to write there")
