"""What the driver's wrapper checks before it asks the driver."""

from __future__ import annotations

from ctypes import c_void_p
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from autoq.errors import DriverError, TargetError
from autoq.runtime.cuda import launching
from autoq.runtime.cuda.driver import Memory, _host_span
from autoq.runtime.cuda.kernel import LoadedKernel
from autoq.runtime.kernel import CudaKernel, Launch


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


def test_what_a_launch_asks_for_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def take(name: str, config: Any, *rest: object) -> None:
        asked.append(config._obj)

    monkeypatch.setattr(launching, "call", take)
    function, stream = SimpleNamespace(handle=None), SimpleNamespace(handle=c_void_p(7))
    extents = ((5, 6, 7), (128, 1, 1), (2, 1, 1))
    for programmatic in (True, False, True):
        launching.launch(function, extents, 1024, stream, None, programmatic)
    first, second, third = asked
    assert first is third and first is not second
    assert (*first.grid, *first.block, first.smem_bytes, first.stream) == (
        5,
        6,
        7,
        128,
        1,
        1,
        1024,
        7,
    )
    attributes = [first.attributes[i] for i in range(first.attribute_count)]
    assert [(one.id, one.value[0]) for one in attributes] == [(4, 2), (6, 1)]
    assert second.attribute_count == 1


@pytest.mark.parametrize(("blocks", "room"), [(132, 132), (132, 78)])
def test_blocks_that_wait_for_one_another_need_room_for_all(
    blocks: int, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Loaded:
        def __init__(self, *given: object) -> None:
            pass

        def resident_blocks(self, threads: int, smem_bytes: int) -> int:
            assert (threads, smem_bytes) == (256, 1024)
            return room

    monkeypatch.setattr("autoq.runtime.cuda.kernel.Module", Loaded)
    monkeypatch.setattr("autoq.runtime.cuda.kernel.Function", Loaded)
    item = Launch("meets", (blocks, 1, 1), (128, 2, 1), (1, 1, 1), 1024, (), cooperative=True)
    kernel = CudaKernel((b"",), (item,), ())
    if blocks <= room:
        assert LoadedKernel(kernel).kernel is kernel
        return
    with pytest.raises(TargetError, match=r"meets: 132 blocks have to run at once, .* runs 78"):
        LoadedKernel(kernel)
