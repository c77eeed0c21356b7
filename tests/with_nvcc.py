"""A mark for tests that compile CUDA."""

from __future__ import annotations

import pytest

from autoq.errors import TargetError
from autoq.kernel.nvcc import find_nvcc


def _nvcc_is_there() -> bool:
    try:
        return bool(find_nvcc())
    except TargetError:
        return False


needs_nvcc = pytest.mark.skipif(not _nvcc_is_there(), reason="nvcc is not installed")
