"""Order of output tiles: groups of m tiles share their n tiles, so that both stay in the L2."""

from __future__ import annotations

from typing import Any

from tvm.script import tirx as T


def tile_of(work: Any, m_tiles: int, n_tiles: int, group: int) -> tuple[Any, Any]:
    """The (m, n) tile of a work index: column by column in groups of `group` m tiles."""
    if n_tiles == 1:
        return work, 0
    group = min(group, m_tiles)
    per_group = group * n_tiles
    if m_tiles % group == 0:
        return (work // per_group) * group + work % group, work % per_group // group
    index = work // per_group
    rows = min_of(m_tiles - index * group, group)
    return index * group + work % per_group % rows, work % per_group // rows


def min_of(first: Any, second: Any) -> Any:
    """The smaller of two, Python integers or expressions."""
    if isinstance(first, int) and isinstance(second, int):
        return min(first, second)
    return T.min(first, second)
