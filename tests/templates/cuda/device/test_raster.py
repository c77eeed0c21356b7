"""Orders of tiles: every tile comes once, ragged last groups included."""

from __future__ import annotations

import itertools

import pytest

from autoq.templates.cuda.device.launch.raster import tile_of


def order(
    m_tiles: int, n_tiles: int, group: int, turns_back: bool = False
) -> list[tuple[int, int]]:
    """The tiles of all work indices."""
    works = range(m_tiles * n_tiles)
    places = (tile_of(work, m_tiles, n_tiles, group, turns_back) for work in works)
    return [(int(m), int(n)) for m, n in places]


@pytest.mark.parametrize("turns_back", [False, True])
@pytest.mark.parametrize("group", [1, 2, 3, 6, 16])
@pytest.mark.parametrize("m_tiles, n_tiles", [(1, 1), (1, 7), (5, 1), (4, 8), (9, 11), (18, 5)])
def test_every_tile_comes_once(m_tiles: int, n_tiles: int, group: int, turns_back: bool) -> None:
    found = order(m_tiles, n_tiles, group, turns_back)
    assert sorted(found) == list(itertools.product(range(m_tiles), range(n_tiles)))


def test_a_group_goes_down_its_columns_and_the_last_one_may_be_smaller() -> None:
    found = order(5, 3, 3)
    assert found[:4] == [(0, 0), (1, 0), (2, 0), (0, 1)]
    assert found[9:] == [(3, 0), (4, 0), (3, 1), (4, 1), (3, 2), (4, 2)]


def test_every_other_group_turns_back() -> None:
    found = order(5, 3, 2, turns_back=True)
    assert [n for _, n in found] == [0, 0, 1, 1, 2, 2, 2, 2, 1, 1, 0, 0, 0, 1, 2]
