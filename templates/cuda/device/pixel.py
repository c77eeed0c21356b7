"""The output pixel that a row of a tile computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Pixel:
    """Where a tile's row goes: flat output pixel, whether it exists, its row and column."""

    index: Any
    exists: Any
    p: Any
    q: Any
