"""What tests of searches and of models of records share: two spaces and their lessons."""

from __future__ import annotations

import pytest

from autoq.knowledge.training import gathered, lessons_of
from autoq.measure.job import REGISTRY, load_registry
from autoq.replaying.loading import shipped_spaces

# Two depthwise layers, of a few recorded configurations and of many.
FIRST, SECOND = "n8-3x3-7x7x960-960-g960", "n8-3x3-14x14x576-576-g576"


@pytest.fixture(scope="module")
def templates():
    return load_registry(REGISTRY)


@pytest.fixture(scope="module")
def paths():
    return [next(p for p in shipped_spaces() if name in p.name) for name in (FIRST, SECOND)]


@pytest.fixture(scope="module")
def lessons(paths, templates):
    return lessons_of(gathered(paths), templates)
