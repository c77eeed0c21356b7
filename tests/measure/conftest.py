"""Makes the fake templates importable here and in child processes; skips without a GPU."""

import sys
from pathlib import Path

import pytest

from autoq.runtime.cuda_driver import device_count

sys.path.insert(0, str(Path(__file__).parent))


def pytest_runtest_setup(item):
    if item.get_closest_marker("gpu") and not device_count():
        pytest.skip("needs a CUDA GPU")
