"""Whether a matrix holds numbers alone, looked at where it lies."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

import numpy as np

from autoq.errors import InputError
from autoq.graph.ir import Fusion, Primitive
from autoq.graph.lowering.fusions import fusion_prim_func
from autoq.kernel import compile_kernel
from autoq.runtime.cuda.call import CudaCall
from autoq.runtime.kernel import CudaKernel
from autoq.templates.cuda.movement.rows_plan import LONGEST_ROW
from autoq.templates.target import Target

_SHORTEST_ROW = 64
"""Values of a row below which a copy to the host is quicker."""
_MOST_VALUES = 1 << 31
"""Kernels that reduce rows index by 32-bit integers."""


def require_finite(name: str, matrix: Any, target: Target, cache_dir: Path | None) -> None:
    """Raise InputError where a float32 matrix has NaN or infinity.

    It is an array of numpy or a dense tensor on a GPU of `target`, which is read there, by a kernel
    that is compiled once for each shape; cache_dir keeps its machine code.
    """
    rows = None if isinstance(matrix, np.ndarray) else rows_of(math.prod(matrix.shape))
    if rows is None:
        values = matrix if isinstance(matrix, np.ndarray) else matrix.numpy()
        finite = bool(np.isfinite(values.sum(dtype=np.float64)))
    else:
        view = matrix._create_view(rows, "float32")
        (means,) = _row_means_call(rows, target, cache_dir)([(name, view)])
        finite = bool(np.isfinite(means.numpy()).all())
    if not finite:
        raise InputError(f"{name} has NaN or infinite values; products of integers have none")


def rows_of(size: int) -> tuple[int, int] | None:
    """Rows of equal length that so many values make and a kernel reduces; None for none."""
    if size >= _MOST_VALUES:
        return None
    lengths = (length for length in range(LONGEST_ROW, _SHORTEST_ROW - 1, -1) if not size % length)
    length = next(lengths, None)
    return None if length is None else (size // length, length)


def row_means(rows: tuple[int, int]) -> Fusion:
    """Each row's mean of `x - x`, float32 [rows, 1]: 0, or NaN where a value is no number."""
    difference = Primitive("Sub", (0, 0), "float32")
    mean = Primitive("ReduceMean", (1,), "float32", (("axes", (1,)),))
    means = (rows[0], 1)
    covers = ("finite",)
    return Fusion((difference, mean), ("x",), (rows,), ("float32",), (), "means", means, covers)


@functools.lru_cache(maxsize=8)
def _row_means_call(rows: tuple[int, int], target: Target, cache_dir: Path | None) -> CudaCall:
    function = fusion_prim_func(row_means(rows), target)
    kernel = compile_kernel(function, target, cache_dir=cache_dir)
    if not isinstance(kernel, CudaKernel):
        raise InputError(f"a tensor on a GPU, but the target is {target.kind}")
    return CudaCall(kernel, [], [((rows[0], 1), "float32")])
