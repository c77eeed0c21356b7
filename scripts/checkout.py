"""Which commit a benchmark ran from."""

from __future__ import annotations

import os
import subprocess


def commit() -> str:
    """The commit that is checked out; without a checkout what AUTOQ_COMMIT says, or nothing."""
    if named := os.environ.get("AUTOQ_COMMIT"):
        return named
    done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip()
