"""What the driver's wrapper checks before it asks the driver."""

from __future__ import annotations

import numpy as np
import pytest

from autoq.errors import DriverError
from autoq.runtime.cuda.driver import Memory, _host_span


def test_only_contiguous_arrays_are_copied() -> None:
    array = np.zeros((2, 3, 4), np.int16)
    assert _host_span(array) == (array.ctypes.data, 48)
    with pytest.raises(ValueError, match="no run of bytes"):
        _host_span(array.transpose(0, 2, 1))
    assert _host_span(b"abc")[1] == 3


def test_memory_that_cannot_be_had_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, *args: object) -> None:
        raise DriverError(f"{name} failed: CUDA_ERROR_OUT_OF_MEMORY")

    monkeypatch.setattr("autoq.runtime.cuda.driver.call", refuse)
    with pytest.raises(DriverError, match=r"^4096 bytes of GPU memory .*OUT_OF_MEMORY$"):
        Memory(4096)
