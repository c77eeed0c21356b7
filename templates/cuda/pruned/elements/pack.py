"""Single weights as kernels read them: runs of steps, one for each output in each chunk of x."""

from __future__ import annotations

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.pruned.elements.config import UNIT, ElementsTiling


def run_specs(tiling: ElementsTiling) -> tuple[TensorSpec, ...]:
    """starts, places and values."""
    dtype = tiling.view.workload.weight_dtype if tiling.view.value.bytes == 1 else "float32"
    return (
        TensorSpec("starts", (tiling.runs + 1,), "int32"),
        TensorSpec("places", (tiling.steps, UNIT), "int32"),
        TensorSpec("values", (tiling.steps, UNIT), dtype),
    )


def pack_runs(tiling: ElementsTiling, weight: np.ndarray) -> tuple[np.ndarray, ...]:
    """starts: where each run begins, and where the last one ends; chunks are the outer order.

    places: bytes from the start of a chunk to the row of each weight. Runs end with whole steps of
    `UNIT` weights, the last of which may be 0.
    """
    starts, places, values = (np.zeros(s.shape, s.dtype) for s in run_specs(tiling))
    outputs, inputs = np.nonzero(weight)
    chunk, row = np.divmod(inputs, tiling.config.chunk)
    run = chunk * (tiling.column_tiles * tiling.columns) + outputs
    order = np.argsort(run, kind="stable")
    run, row = run[order], row[order]
    counts = np.bincount(run, minlength=tiling.runs)
    starts[1:] = np.cumsum(-(-counts // UNIT))
    first = np.cumsum(counts) - counts
    at = starts[run].astype(np.int64) * UNIT + np.arange(len(run)) - first[run]
    places.reshape(-1)[at] = row * tiling.row_bytes
    values.reshape(-1)[at] = weight[outputs, inputs][order]
    return starts, places, values
