"""Constants of attention of products, arranged as its kernel reads them."""

from __future__ import annotations

import numpy as np

from autoq.templates.cuda.attention.projected.plan import (
    BOUND_WORDS,
    GROUP,
    LINE_BYTES,
    table_words,
)
from autoq.templates.cuda.device.memory.swizzle import shared_image
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.epilogue import SCALAR_NAMES
from autoq.templates.operators.projected_attention import ProjectedAttention
from autoq.templates.tensor_spec import TensorSpec
from autoq.templates.workload import Constants

# Of queries, keys and values in their order as products, the order in which a block rounds them:
# what others wait for comes first.
_ROUNDED = (1, 2, 0)
_BOUNDS = ("low", "high", "zero_point")


def _columns() -> np.ndarray:
    """For each row of a group of weights, the channel that it has.

    A thread's accumulators of two tiles of 8 columns, two of each, are four neighbouring channels.
    """
    tile, lane, one = np.meshgrid(range(2), range(4), range(2), indexing="ij")
    return (4 * lane + 2 * tile + one).reshape(GROUP)


def pack(
    workload: ProjectedAttention, config: object, constants: Constants
) -> tuple[np.ndarray, ...]:
    """Weights, tables, and the scalars and zero points of attention."""
    work, each = workload, workload.constants_of_projection(constants)
    weight = np.asarray(each["weight"])
    shape = (3, work.heads, work.depth)
    zero_point = int(each.get("x_zero_point", 0))
    shifted = zero_point * weight.sum(axis=2, dtype=np.int64)
    bias = (np.asarray(each["bias"], np.int64) - shifted).astype(np.int32).reshape(shape)
    scale = np.ascontiguousarray(each["scale"], np.float32).reshape(shape)
    words = np.stack([scale.view(np.int32), bias])[:, list(_ROUNDED)]  # [2, 3, heads, depth]
    fours = words.reshape(2, 3, work.heads, work.depth // 4, 4)
    channels = fours.transpose(2, 1, 3, 0, 4).reshape(work.heads, -1)
    scalars = np.asarray(each["scalars"], np.float32)[list(_ROUNDED)]
    bounds = np.zeros((3, BOUND_WORDS), np.float32)
    bounds[:, : len(_BOUNDS)] = scalars[:, [SCALAR_NAMES.index(name) for name in _BOUNDS]]
    alike = np.tile(bounds.reshape(1, -1).view(np.int32), (work.heads, 1))
    table = np.concatenate([channels, alike], axis=1)
    attention = workload.constants_of_attention(constants)
    zero_points = [int(attention.get(f"{name}_zero_point", 0)) for name in "qkv"]
    return (
        _weights(work, weight),
        np.ascontiguousarray(table).reshape(-1),
        np.ascontiguousarray(attention["scalars"], np.float32),
        np.array([*zero_points, 0], np.int32),
    )


def _weights(work: ProjectedAttention, weight: np.ndarray) -> np.ndarray:
    """Stages of 128 columns of each head, as they lie in shared memory."""
    steps = ceil_div(work.columns, LINE_BYTES)
    padded = np.zeros((3, work.heads, work.depth, steps * LINE_BYTES), weight.dtype)
    padded[..., : work.columns] = weight.reshape(3, work.heads, work.depth, work.columns)
    groups = padded[list(_ROUNDED)].reshape(3, work.heads, -1, GROUP, steps, LINE_BYTES)
    lying = groups[:, :, :, _columns()].transpose(1, 4, 0, 2, 3, 5)
    return shared_image(np.ascontiguousarray(lying).reshape(-1, LINE_BYTES))


def packed(workload: ProjectedAttention, config: object) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    steps = ceil_div(workload.columns, LINE_BYTES)
    size = workload.heads * steps * 3 * workload.depth * LINE_BYTES
    return (
        TensorSpec("weights", (size,), workload.weight_dtype),
        TensorSpec("table", (workload.heads * table_words(workload.depth),), "int32"),
        *workload.attention.constants[:1],
        TensorSpec("zero_points", (4,), "int32"),
    )
