"""Products of two activations of bytes on wgmma whose rows of x lie one behind the other.

Values of attention over any number of keys: rows of x, the shares, may start at any byte.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from autoq.templates.base import Template
from autoq.templates.cuda.batched.batched_gemm_wgmma import CONSTANTS
from autoq.templates.cuda.batched.rows.config import BatchedRowsConfig
from autoq.templates.cuda.batched.rows.plan import COLUMN_GROUP, UNIT_BYTES, BatchedRowsPlan
from autoq.templates.cuda.batched.rows.space import default, estimate, space
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.target import Target

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc

_OUTPUTS = ("int8", "uint8")
_MOST_COLUMNS, _MOST_K = 128, 320
_MOST = 1 << 31


def matches(workload: object, target: Target) -> bool:
    """On sm_90a: bytes to bytes, nothing behind the products, other `[k, n]` of whole units.

    Rows of x are no whole units and follow one another, in an array of whole units. A thread holds
    all of its rows.
    """
    if not isinstance(workload, BatchedGemm) or not target.has_wgmma or workload.has_four_bits:
        return False
    out = workload.epilogue.out_dtype
    if workload.floating or out not in _OUTPUTS or workload.epilogue != Epilogue(out):
        return False
    x_bytes = math.prod(workload.x_shape)
    arrays = (*workload.inputs, *workload.outputs)
    return (
        workload.row_places(workload.x_order, 0)[1] == workload.k
        and workload.k % UNIT_BYTES != 0
        and x_bytes % UNIT_BYTES == 0
        and workload.other_order.endswith("n")
        and workload.n % COLUMN_GROUP == 0
        and workload.n <= _MOST_COLUMNS
        and workload.k <= _MOST_K
        and all(math.prod(array.shape) < _MOST for array in arrays)
    )


def build(workload: BatchedGemm, config: BatchedRowsConfig, target: Target) -> PrimFunc:
    """PrimFunc (x, other, zero_points, scale, scalars, y); see `build_kernel`."""
    from autoq.templates.cuda.batched.rows.kernel import build_kernel

    packed = CONSTANTS.packed(workload, config)
    return build_kernel(BatchedRowsPlan(workload, config, target), packed)


TEMPLATE = Template(
    "batched_gemm_rows_wgmma", 1, matches, space, default, build,
    CONSTANTS.pack, CONSTANTS.packed, preference=15, estimate=estimate,
)  # fmt: skip
"""Products of bytes on Hopper's tensor cores with x from registers."""
