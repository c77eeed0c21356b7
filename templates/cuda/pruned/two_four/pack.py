"""A 2:4 sparse weight as sparse tensor cores read it: kept values, then metadata, of each stage.

A block of 64 weight rows has rows g and g + 8 of 16 exchanged for 2g and 2g + 1, so that a thread's
two sums of a column of the instruction are neighbours in y.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.mma.registers import compress, metadata_words
from autoq.templates.cuda.pruned.two_four.config import A_BYTES, METADATA_BYTES, TwoFourTiling
from autoq.templates.epilogue import Epilogue
from autoq.templates.epilogue.cuda.parameters.scalars import packed_scalars, packed_scales
from autoq.templates.epilogue.cuda.short_forms.choice import ShortForm
from autoq.templates.workload import Constants

_ROW_ORDER = np.array([2 * row if row < 8 else 2 * row - 15 for row in range(16)])
"""Which of 16 weight rows each row of the instruction is."""


def weight_spec(tiling: TwoFourTiling) -> TensorSpec:
    """The packed weight: bytes of every stage of every tile."""
    shape = (tiling.weight_tiles, tiling.k_stages, tiling.weight_stage_bytes)
    return TensorSpec("weight", shape, "uint8")


def pack_weight(tiling: TwoFourTiling, constants: Constants) -> np.ndarray:
    """The weight as `weight_spec` says."""
    weight = np.asarray(constants["weight"])
    n, k = weight.shape
    atom, steps = tiling.atom, tiling.steps
    depth = tiling.k_stages * steps * atom.k
    whole = np.zeros((tiling.terms, depth), weight.dtype)
    whole[:n, :k] = weight
    whole = whole.reshape(-1, 16, depth)[:, _ROW_ORDER].reshape(-1, 64, depth)
    blocks = len(whole)
    # [blocks, steps of all stages, 64, k of an instruction]
    cut = np.ascontiguousarray(whole.reshape(blocks, 64, -1, atom.k).transpose(0, 2, 1, 3))
    kept, places = compress(cut.reshape(-1, atom.k))
    values = kept.reshape(*cut.shape[:3], atom.k // 2).view(np.uint8).reshape(*cut.shape[:3], 2, 16)
    # Unswizzled: a column of 16 bytes of all 64 rows, then the other.
    values = values.transpose(0, 1, 3, 2, 4)
    values = np.ascontiguousarray(values).reshape(*cut.shape[:2], A_BYTES)
    fragment = atom.metadata_fragment()
    words = np.stack(
        [metadata_words(one, fragment)[:, 0] for one in places.reshape(-1, 64, *places.shape[1:])]
    )
    metadata = words.astype(np.uint32).view(np.uint8).reshape(*cut.shape[:2], METADATA_BYTES)
    return _by_stages(tiling, values, metadata)


def _by_stages(tiling: TwoFourTiling, values: np.ndarray, metadata: np.ndarray) -> np.ndarray:
    """Values and metadata [blocks, steps, bytes] as [tiles, stages, bytes of a stage]."""
    parts = []
    for array in (values, metadata):
        shape = (tiling.weight_tiles, tiling.row_blocks, tiling.k_stages, tiling.steps, -1)
        ordered = array.reshape(shape).transpose(0, 2, 3, 1, 4)
        parts.append(ordered.reshape(tiling.weight_tiles, tiling.k_stages, -1))
    return np.ascontiguousarray(np.concatenate(parts, axis=-1))


def pack_terms(
    epilogue: Epilogue,
    specs: Sequence[TensorSpec],
    terms: Mapping[str, Any],
    form: ShortForm,
    columns: int,
    behind: Sequence[np.ndarray] = (),
) -> tuple[np.ndarray, ...]:
    """What the epilogue's constant parameters hold of so many columns of y, for a short form.

    behind: float32 arrays that follow the form's numbers.
    """

    def padded(values: np.ndarray) -> np.ndarray:
        return np.pad(values, (0, columns - len(values)))

    bias = np.asarray(terms["bias"], np.int32) + np.int32(form.start)
    given = {
        "bias": padded(bias).reshape(1, 1, -1),
        "scalars": np.concatenate([packed_scalars(epilogue, terms), form.numbers, *behind]),
    }
    if any(spec.name == "scale" for spec in specs):
        scale = np.float32(form.factor) * np.asarray(terms["scale"])
        given["scale"] = packed_scales(epilogue, {**terms, "scale": scale}, padded)
    return tuple(np.ascontiguousarray(given[spec.name], spec.dtype) for spec in specs)
