"""Fixtures of the search tests."""

from __future__ import annotations

import pytest
from small_spaces import SmallConfig, small_space, union_space

from autoq.search.space import Space
from autoq.search.union import UnionSpace


@pytest.fixture
def space() -> Space[SmallConfig]:
    return small_space()


@pytest.fixture
def union() -> UnionSpace:
    return union_space()
