"""Kernels that ask for constants of a later one do what they did."""

from __future__ import annotations

import numpy as np
import pytest
from ptx.emulate import Memory, Mode, launch, ptx_of
from test_compile_kernel import GPU
from tvm.script import tirx as T
from with_nvcc import needs_nvcc

from autoq.errors import BuildError
from autoq.kernel import compile_kernel
from autoq.kernel.ahead import AHEAD, asking_ahead
from autoq.kernel.lowering import cuda_source, lower
from autoq.runtime.kernel import Buffer
from autoq.runtime.plan import ALIGNMENT


def doubling():
    @T.prim_func
    def main(x_ptr: T.handle, y_ptr: T.handle):
        x = T.match_buffer(x_ptr, (256,), "int32", align=16)
        y = T.match_buffer(y_ptr, (256,), "int32", align=16)
        T.device_entry()
        block = T.cta_id([2])
        thread = T.thread_id([128])
        y[block * 128 + thread] = x[block * 128 + thread] * 2

    return main


@needs_nvcc
def test_a_kernel_that_asks_computes_what_it_did() -> None:
    (item,) = compile_kernel(doubling(), GPU, ahead=True).launches
    assert item.arguments[: len(AHEAD)] == (Buffer(0), Buffer(1))
    later, x = Memory(np.zeros(ALIGNMENT, np.uint8), False), np.arange(256, dtype=np.int32)
    memories = [later, later, Memory(x, False), Memory(np.zeros_like(x), True)]
    source, symbol = asking_ahead(cuda_source(lower(doubling(), GPU), GPU))
    assert symbol == item.symbol
    ptx = ptx_of(source, GPU.arch)
    assert ptx.count("cp.async.bulk.prefetch.L2.global") >= 1
    launch(ptx, item, memories, Mode())
    np.testing.assert_array_equal(memories[-1].bytes.view(np.int32), 2 * x)


def test_what_has_no_kernel_cannot_ask() -> None:
    with pytest.raises(BuildError, match="no kernel"):
        asking_ahead("int x;\n")
