"""The sparse side as the kernel of boxes reads it: of each vector row which rows of b it takes.

Vector rows lie in groups side by side, the longest first, so that those of a group have about as
much work each.
"""

from __future__ import annotations

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.turned.row_steps import RowSteps, row_steps
from autoq.templates.cuda.sparse.boxes.config import BoxesTiling
from autoq.templates.cuda.sparse.functions import pack_terms, term_specs
from autoq.templates.sparse.pruned_matrix import NO_ROW
from autoq.templates.workload import Constants

_STEP_UNITS = 2
"""Of 16 bytes along k, of an instruction."""


def boxes_specs(tiling: BoxesTiling) -> tuple[TensorSpec, ...]:
    """The arrays of `pack_boxes`."""
    slots = tiling.groups * tiling.config.sides
    return (
        TensorSpec("values", (tiling.most_stages, tiling.packed_bytes // 4), "int32"),
        TensorSpec("sides", (slots, 4), "int32"),
        *term_specs(tiling),
    )


def pack_boxes(tiling: BoxesTiling, constants: Constants) -> tuple[np.ndarray, ...]:
    """values, sides, then what `pack_terms` gives.

    values: of each stage the vectors of two instructions, columns of 16 bytes along k one below
    the other for all rows of a vector row, and behind them the words of `RowSteps`. sides: of each
    vector row, in the order of groups, its first stage, its stages and its number; those that fill
    up the last groups have no stages.
    """
    workload = tiling.workload
    matrix = workload.matrix(constants)
    specs = boxes_specs(tiling)
    packed, sides = (np.zeros(spec.shape, spec.dtype) for spec in specs[:2])
    order, stage = np.argsort(-matrix.lengths, kind="stable"), 0
    for slot, row in enumerate(order):
        own = slice(matrix.pointers[row], matrix.pointers[row + 1])
        made = stages_of(tiling, matrix.indices[own], matrix.values[own])
        packed[stage : stage + len(made)] = made
        sides[slot] = stage, len(made), row, 0
        stage += len(made)
    return (packed, sides, *pack_terms(tiling, constants, np.arange(tiling.terms)))


def stages_of(tiling: BoxesTiling, kept: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """A vector row's stages, int32 [stages, words], of vectors at these rows of b."""
    workload = tiling.workload
    steps = row_steps(np.sort(kept), 1, workload.k, tiling.config.b_stages)
    values = _lying(tiling, steps, kept, vectors)
    stages = len(steps.words)
    made = np.zeros((stages, tiling.packed_bytes), np.uint8)
    made[:, : tiling.values_bytes] = values.reshape(stages, -1)
    made[:, tiling.values_bytes :] = np.ascontiguousarray(steps.words.astype("<u4")).view(np.uint8)
    return made.view(np.int32)


def _lying(
    tiling: BoxesTiling, steps: RowSteps, kept: np.ndarray, vectors: np.ndarray
) -> np.ndarray:
    """Bytes of the vectors of steps, [steps * bytes of a step], 0 where a step has no row."""
    number = np.full(tiling.workload.k, NO_ROW)
    number[kept] = np.arange(len(kept))
    there = (steps.rows != NO_ROW) & (steps.rows < tiling.workload.k)
    of_step = np.where(there, number[np.where(there, steps.rows, 0)], NO_ROW)
    filled = np.concatenate([vectors, np.zeros((1, tiling.workload.vector), vectors.dtype)])
    # [steps, values, rows of a vector] to units of 16 bytes, all rows below each other.
    units = filled[of_step].reshape(len(of_step), _STEP_UNITS, -1, tiling.workload.vector)
    return np.ascontiguousarray(units.transpose(0, 1, 3, 2)).view(np.uint8)
