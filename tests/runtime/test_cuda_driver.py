"""What the driver's wrapper checks before it asks the driver."""

from __future__ import annotations

import numpy as np
import pytest

from autoq.runtime.cuda_driver import _host_span


def test_only_contiguous_arrays_are_copied() -> None:
    array = np.zeros((2, 3, 4), np.int16)
    assert _host_span(array) == (array.ctypes.data, 48)
    with pytest.raises(ValueError, match="no run of bytes"):
        _host_span(array.transpose(0, 2, 1))
    assert _host_span(b"abc")[1] == 3
