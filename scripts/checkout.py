"""Which commit a benchmark ran from."""

from __future__ import annotations

import subprocess


def commit() -> str:
    """The commit that is checked out, empty outside a checkout."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip()
