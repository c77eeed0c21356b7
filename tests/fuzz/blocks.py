"""Random quantised graphs of blocks that passes rewrite as a whole: see `fuzz.graphs`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fuzz import graphs

LIMIT_SECONDS = graphs.LIMIT_SECONDS


def case(rng: np.random.Generator, folder: Path) -> None:
    """One graph."""
    graphs.case(rng, folder, blocks=True)
