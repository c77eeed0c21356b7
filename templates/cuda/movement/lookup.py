"""A table applied to a tensor of bytes: 16 bytes of outputs a thread, from shared memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.element import element
from autoq.templates.arrays.table import ENTRIES
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.device.launch.thread_kernel import (
    ThreadConfig,
    call,
    indexable,
    items_kernel,
    thread_default,
    thread_space,
)
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.operators.lookup import Lookup, packed_table
from autoq.templates.target import Target
from autoq.templates.workload import Constants

# Random bytes meet in two words of each bank at most, since the table has two words in each; of a
# table of floats 4.3 on average meet in one bank.
_SOURCE = r"""
__device__ __forceinline__ void look_up(
    unsigned* shared, const X* x, const OUT* from, OUT* y, int item, int thread, int threads) {
  OUT* table = reinterpret_cast<OUT*>(shared);
  constexpr int STEP = 16 / sizeof(OUT);
  Raw<X, V> in = {};
  if (item < VECTORS) in = load<X, V>(x + item * V);
  #pragma unroll 1
  for (int i = thread; i < 256 / STEP; i += threads)  // unrolled, it spills
    store<OUT, STEP>(table + i * STEP, load<OUT, STEP>(from + i * STEP));
  __syncthreads();
  if (item < VECTORS) {
    Raw<OUT, V> out = {};
    #pragma unroll
    for (int i = 0; i < V; ++i) {
      const OUT entry = table[in.word[i / 4] >> 8 * (i % 4) & 255u];
      if constexpr (BITS<OUT> == 32) out.word[i] = __float_as_uint(entry);
      else out.word[i / 4] |= (unsigned)(unsigned char)entry << 8 * (i % 4);
    }
    store<OUT, V>(y + item * V, out);
  } else if (item < ITEMS) {
    const int at = VECTORS * V + item - VECTORS;
    y[at] = table[(unsigned char)x[at]];
  }
}
"""


def matches(workload: object, target: Target) -> bool:
    """Bytes to bytes or float32."""
    return (
        isinstance(workload, Lookup)
        and target.kind == "cuda"
        and workload.in_dtype in ("int8", "uint8")
        and workload.out_dtype in ("int8", "uint8", "float32")
        and indexable(workload.shape)
    )


def build(workload: Lookup, config: ThreadConfig, target: Target) -> PrimFunc:
    """The kernel; parameters x, table [256], y. The last values that fill no vector take a
    thread each."""
    elements = math.prod(workload.shape)
    values = 4 if workload.out_dtype == "float32" else 16
    vectors = elements // values
    items = vectors + elements % values
    functions = DeviceNamespace(
        "lookup",
        _SOURCE,
        {"X": workload.in_dtype, "OUT": workload.out_dtype},
        {"V": values, "VECTORS": vectors, "ITEMS": items},
    )
    parameters = [
        TensorSpec("x", workload.shape, workload.in_dtype),
        TensorSpec("table", (ENTRIES,), workload.out_dtype),
        TensorSpec("y", workload.shape, workload.out_dtype),
    ]

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        words = ENTRIES // element(workload.out_dtype).per_word
        shared = builder.alloc_buffer((words,), "uint32", scope="shared").data
        item = block * config.threads + thread
        call(functions.function("look_up"), shared, *pointers, item, thread, config.threads)

    return items_kernel(parameters, items, config.threads, target, body)


def pack(workload: Lookup, config: ThreadConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """The table alone."""
    return (packed_table(workload, constants["table"]),)


def packed(workload: Lookup, config: ThreadConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return workload.constants


TEMPLATE = Template(
    "lookup_cuda", 1, matches, thread_space, thread_default, build, pack, packed, tunable=False
)
"""Element-wise functions of bytes that no convolution absorbs, on every CUDA target."""
