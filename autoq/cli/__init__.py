"""The `autoq` command: one module a verb, errors as one line and exit code 2."""

from __future__ import annotations

from autoq.cli.app import main

__all__ = ["main"]
