"""What tests of models of records share: templates, and recorded spaces to learn from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from autoq.measure.job import REGISTRY, load_registry
from autoq.replaying.loading import shipped_spaces
from autoq.templates.base import Template


@pytest.fixture(scope="session")
def templates() -> Mapping[str, Template]:
    return load_registry(REGISTRY)


@pytest.fixture(scope="session")
def spaces() -> list[Path]:
    """The smallest four of the ablation's spaces, all of one template."""
    found = [path for path in shipped_spaces() if "nhwcnc" in path.name]
    return sorted(found, key=lambda path: path.stat().st_size)[:4]
