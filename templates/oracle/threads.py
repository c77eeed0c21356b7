"""Parts of one computation in numpy, which releases the interpreter's lock while it computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Part = TypeVar("Part")


def in_threads(compute: Callable[[Part], object], parts: Sequence[Part], threads: int) -> None:
    """Call `compute` with each of the parts, on so many threads; raises what it raises."""
    if threads == 1 or len(parts) == 1:
        for part in parts:
            compute(part)
        return
    with ThreadPoolExecutor(min(threads, len(parts))) as pool:
        for _ in pool.map(compute, parts):
            pass
