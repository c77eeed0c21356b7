"""A subject whose cases do nothing, for the fuzzer's own test."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def case(rng: np.random.Generator, folder: Path) -> None:
    """Behave."""
