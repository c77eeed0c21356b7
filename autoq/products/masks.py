"""Masks of sparse products from Python: which elements of a matrix are kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from autoq.errors import InputError
from autoq.templates.field_types import require_vector
from autoq.templates.operators.spmm import SHORT_VECTORS
from autoq.templates.sparse.conversion import to_vectors
from autoq.templates.sparse.strided import StridedMatrix, from_strided
from autoq.templates.sparse.vector_matrix import VectorMatrix, from_dense


def mask_vectors(mask: Any, vector: int) -> VectorMatrix:
    """The vectors of `vector` rows that a mask touches, each with uint8 ones where it is kept.

    mask: numpy [rows, columns], bool or numbers of which 0 means left out; a dense tensor of torch
    and the formats of `autoq.templates.sparse` likewise, whose vectors are filled up with zeros;
    anything else that `to_vectors` takes, whose stored entries are kept whatever they hold. Raises
    InputError for anything else.
    """
    require_vector(vector, SHORT_VECTORS)
    if str(getattr(mask, "layout", "")) == "torch.strided":
        mask = mask.detach().cpu().numpy()
    if isinstance(mask, np.ndarray):
        if mask.ndim != 2:
            raise InputError(f"a mask of shape {list(mask.shape)}: two axes are expected")
        return from_dense((mask != 0).astype(np.uint8), vector)
    if isinstance(mask, StridedMatrix):
        mask = from_strided(mask)
    found = mask if isinstance(mask, VectorMatrix) else to_vectors(mask, 1)
    kept = found.values != 0 if found is mask else np.ones(found.values.shape, bool)
    ones = VectorMatrix(
        found.rows, found.columns, found.vector, found.pointers, found.indices,
        kept.astype(np.uint8),
    )  # fmt: skip
    return to_vectors(ones, vector)
