"""Order of output tiles: groups of m tiles share their n tiles, so that both stay in the L2."""

from __future__ import annotations

from typing import Any

from tvm.script import tirx as T


def tile_of(
    work: Any, m_tiles: int, n_tiles: int, group: int, turns_back: bool = False
) -> tuple[Any, Any]:
    """The (m, n) tile of a work index: column by column in groups of `group` m tiles.

    turns_back: every other group takes the columns from the last one to the first, so that it
    begins with those that the L2 still holds. The divisors are constants, also for the last group,
    which may be smaller.
    """
    if n_tiles == 1:
        return work, 0
    if turns_back:
        m, n = tile_of(work, m_tiles, n_tiles, group)
        return m, T.if_then_else(m // min(group, m_tiles) % 2 == 1, n_tiles - 1 - n, n)
    group = min(group, m_tiles)
    first_of_last = m_tiles // group * group
    last = m_tiles - first_of_last
    m = work // (group * n_tiles) * group + work % group
    n = work % (group * n_tiles) // group
    if last == 0:
        return m, n
    within = work - first_of_last * n_tiles
    whole = within < 0
    return (
        T.if_then_else(whole, m, first_of_last + within % last),
        T.if_then_else(whole, n, within // last),
    )
