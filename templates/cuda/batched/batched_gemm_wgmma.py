"""Products of two activations on wgmma: bytes, and 16-bit floats with sums of float32.

Operands arrive by TMA, so that their rows are whole 16-byte units; rows of y may be of any length.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from autoq.templates.base import Template
from autoq.templates.cuda.batched.config import WARPGROUP_COLUMNS, BatchedWgmmaConfig
from autoq.templates.cuda.batched.cost import estimate
from autoq.templates.cuda.batched.plan import (
    UNIT_BYTES,
    ZERO_POINTS,
    BatchedWgmmaPlan,
    row_bytes,
    stores_boxes,
)
from autoq.templates.cuda.batched.space import MOST_COLUMNS, default, space
from autoq.templates.epilogue import Epilogue
from autoq.templates.epilogue.cuda.parameters.batched_constants import BatchedConstants
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.target import Target

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc

CONSTANTS = BatchedConstants(ZERO_POINTS)
_OUTPUTS = {True: ("float16", "bfloat16"), False: ("int8", "uint8")}
_MOST = 1 << 31


def matches(workload: object, target: Target) -> bool:
    """On sm_90a: outputs as wide as the operands, and no residual or table behind the products."""
    if not isinstance(workload, BatchedGemm) or not target.has_wgmma or workload.has_four_bits:
        return False
    out = workload.epilogue.out_dtype
    if workload.in_dtype == "float32" or workload.epilogue != Epilogue(out):
        return False
    if out not in _OUTPUTS[workload.floating]:
        return False
    arrays = (*workload.inputs, *workload.outputs)
    orders = (workload.x_order, workload.other_order)
    whole = all(
        row_bytes(workload, order, array.dtype) % UNIT_BYTES == 0
        for order, array in zip(orders, arrays, strict=False)
    )
    small = all(math.prod(array.shape) * array.element.bytes < _MOST for array in arrays)
    return whole and small and (stores_boxes(workload) or _rows_follow(workload))


def _rows_follow(workload: BatchedGemm) -> bool:
    """Whether a block has whole rows of y, one behind the other."""
    apart = workload.y_order.startswith("bh") or workload.heads == 1
    return apart and workload.n <= MOST_COLUMNS * WARPGROUP_COLUMNS


def build(workload: BatchedGemm, config: BatchedWgmmaConfig, target: Target) -> PrimFunc:
    """PrimFunc (x, other, zero_points?, scale, scalars, y); see `build_kernel`."""
    from autoq.templates.cuda.batched.kernel import build_kernel

    packed = CONSTANTS.packed(workload, config)
    return build_kernel(BatchedWgmmaPlan(workload, config, target), packed)


TEMPLATE = Template(
    "batched_gemm_wgmma", 1, matches, space, default, build,
    CONSTANTS.pack, CONSTANTS.packed, preference=30, estimate=estimate,
)  # fmt: skip
"""Products of two activations on Hopper's tensor cores."""
