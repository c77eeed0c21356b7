"""What all tests share; its place also lets them import `models`."""

from __future__ import annotations

import functools

import pytest

from autoq.runtime.cuda_driver import device_count
from autoq.runtime.threads import use_every_core

use_every_core()


@functools.cache
def _gpus() -> int:
    return device_count()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests marked `gpu` where there is no GPU."""
    if item.get_closest_marker("gpu") and not _gpus():
        pytest.skip("needs a CUDA GPU")
