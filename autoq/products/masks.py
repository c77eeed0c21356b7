"""Masks of sparse products from Python: which elements of a matrix are kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from autoq.errors import InputError
from autoq.templates.operators.spmm import SHORT_VECTORS
from autoq.templates.sparse.conversion import to_vectors
from autoq.templates.sparse.strided import StridedMatrix, from_strided
from autoq.templates.sparse.vector_matrix import VectorMatrix, from_dense


def mask_vectors(mask: Any, vector: int) -> VectorMatrix:
    """The vectors of `vector` rows that a mask touches, each with uint8 ones where it is kept.

    mask: numpy [rows, columns], bool or numbers of which 0 means left out; a dense tensor of DLPack
    likewise; anything else that `to_vectors` takes, whose stored entries are kept whatever they
    hold. Raises InputError for anything else.
    """
    if vector not in SHORT_VECTORS:
        raise InputError(
            f"vectors of {vector} rows: choose one of {', '.join(map(str, SHORT_VECTORS))}"
        )
    dense = str(getattr(mask, "layout", "")) == "torch.strided"
    if dense:
        mask = mask.detach().cpu().numpy()
    if isinstance(mask, np.ndarray):
        if mask.ndim != 2:
            raise InputError(f"a mask of shape {list(mask.shape)}: two axes are expected")
        return from_dense((mask != 0).astype(np.uint8), vector)
    if isinstance(mask, StridedMatrix):
        mask = from_strided(mask)
    own = mask.vector if isinstance(mask, VectorMatrix) else 1
    return to_vectors(_with_ones(mask if own != 1 else to_vectors(mask, own)), vector)


def _with_ones(mask: VectorMatrix) -> VectorMatrix:
    """The matrix with ones in the place of its values, but for what lies below its last row."""
    ones = np.ones(mask.values.shape, np.uint8)
    if mask.rows % mask.vector:
        ones[mask.pointers[-2] :, mask.rows % mask.vector :] = 0
    return VectorMatrix(mask.rows, mask.columns, mask.vector, mask.pointers, mask.indices, ones)
