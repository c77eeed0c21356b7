"""Products of two activations on mma.sync: bytes, and 16-bit floats with sums of float32.

Scores and values of attention, in any of their orders: where values of k are the rows of other,
ldmatrix turns them, of bytes two at a time, and byte permutes do the rest in registers. Rows of any
length are taken, odd numbers of bytes included.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from autoq.templates.base import Template
from autoq.templates.cuda.mma_sync.batched.config import BatchedSyncConfig
from autoq.templates.cuda.mma_sync.batched.cost import estimate
from autoq.templates.cuda.mma_sync.batched.plan import SCALES, ZERO_POINTS, BatchedSyncPlan
from autoq.templates.cuda.mma_sync.batched.space import default, space
from autoq.templates.epilogue.cuda.parameters.batched_constants import BatchedConstants
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.target import Target

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc

CONSTANTS = BatchedConstants(ZERO_POINTS, SCALES)
_LEAST_COMPUTE_CAPABILITY = {"bfloat16": 80}
# Indices count bytes in 32 bits; tiles that overhang count on.
_MOST = (1 << 31) - (1 << 24)


def matches(workload: object, target: Target) -> bool:
    """Bytes and 16-bit floats, bfloat16 from sm_80 on; outputs of whole bytes; 31-bit indices."""
    if not isinstance(workload, BatchedGemm) or target.kind != "cuda":
        return False
    least = _LEAST_COMPUTE_CAPABILITY.get(workload.in_dtype, 75)
    arrays = (*workload.inputs[:2], *workload.outputs)
    sums = workload.epilogue.out_dtype == "int32"
    return (
        target.compute_capability >= least
        and workload.in_dtype != "float32"
        and not workload.has_four_bits
        and not (sums and workload.epilogue.residual_dtype)
        and all(math.prod(array.shape) * array.element.bytes < _MOST for array in arrays)
    )


def build(workload: BatchedGemm, config: BatchedSyncConfig, target: Target) -> PrimFunc:
    """PrimFunc (x, other, residual?, zero_points?, scale?, scalars?, y); see `build_kernel`."""
    from autoq.templates.cuda.mma_sync.batched.kernel import build_kernel

    return build_kernel(BatchedSyncPlan(workload, config, target))


TEMPLATE = Template(
    "batched_gemm_mma_sync", 1, matches, space, default, build,
    CONSTANTS.pack, CONSTANTS.packed, preference=20, estimate=estimate,
)  # fmt: skip
"""Products of two activations on tensor cores."""
