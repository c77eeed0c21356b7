"""Constants of products of two activations, as kernels on tensor cores take them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.epilogue.cuda.parameters.scalars import packed_scalars, scalar_words
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.workload import Constants


@dataclass(frozen=True)
class BatchedConstants:
    """The arrays of a kernel: zero points of bytes, then scale and scalars unless it stores sums.

    zero_points: words of their array, which begins with those of x and of other, and ends with
    zeros. scales: copies of the one scale.
    """

    zero_points: int
    scales: int = 1

    def pack(
        self, workload: BatchedGemm, config: Any, constants: Constants
    ) -> tuple[np.ndarray, ...]:
        """`Template.pack`."""
        arrays: list[np.ndarray] = []
        if not workload.floating:
            words = np.zeros(self.zero_points, np.int32)
            words[:2] = [int(constants.get(f"{name}_zero_point", 0)) for name in ("x", "other")]
            arrays.append(words)
        if workload.epilogue.out_dtype != "int32":
            scale = np.asarray(constants["scale"], np.float32).reshape(1)
            arrays.append(np.repeat(scale, self.scales))
            arrays.append(packed_scalars(workload.epilogue, constants))
        return tuple(arrays)

    def packed(self, workload: BatchedGemm, config: Any) -> tuple[TensorSpec, ...]:
        """`Template.packed`."""
        specs = []
        if not workload.floating:
            specs.append(TensorSpec("zero_points", (self.zero_points,), "int32"))
        if workload.epilogue.out_dtype != "int32":
            specs.append(TensorSpec("scale", (self.scales,), "float32"))
            specs.append(TensorSpec("scalars", (scalar_words(workload.epilogue),), "float32"))
        return tuple(specs)
