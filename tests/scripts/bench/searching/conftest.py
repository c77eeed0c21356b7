"""What tests of searches and of models of records share: two spaces and their lessons."""

from __future__ import annotations

import pytest
from recorded_layers import layer_paths

from autoq.knowledge.training import gathered, lessons_of
from autoq.measure.job import REGISTRY, load_registry


@pytest.fixture(scope="module")
def templates():
    return load_registry(REGISTRY)


@pytest.fixture(scope="module")
def paths():
    return layer_paths()


@pytest.fixture(scope="module")
def lessons(paths, templates):
    return lessons_of(gathered(paths), templates)
