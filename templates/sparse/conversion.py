"""From the sparse matrices of other libraries, and back to the arrays that these take.

No library is imported: a scipy matrix is known by its `tocoo`, a torch tensor by its `layout`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autoq.errors import InputError
from autoq.templates.sparse.strided import StridedMatrix, from_strided
from autoq.templates.sparse.vector_matrix import (
    VectorMatrix,
    from_dense,
    from_entries,
    regrouped,
)


def to_vectors(matrix: Any, vector: int) -> VectorMatrix:
    """A matrix of any kind in vectors of `vector` rows.

    matrix: numpy [rows, columns], of which zeros are left out; anything of scipy.sparse; a torch
    tensor of layout sparse_csr or sparse_bsr; `VectorMatrix` or `StridedMatrix`. Entries that are
    stored stay even where they are 0, but for matrices in vectors of another length. Raises
    InputError for anything else.
    """
    if isinstance(matrix, StridedMatrix):
        matrix = from_strided(matrix)
    if isinstance(matrix, VectorMatrix):
        return regrouped(matrix, vector)
    if isinstance(matrix, np.ndarray):
        return from_dense(matrix, vector)
    layout = str(getattr(matrix, "layout", ""))
    if layout in ("torch.sparse_csr", "torch.sparse_bsr"):
        return from_entries(_shape(matrix), vector, *_torch_entries(matrix))
    if hasattr(matrix, "tocoo"):
        if hasattr(matrix, "indptr"):
            _check_pointers(matrix.indptr, _lists(matrix), len(matrix.indices), len(matrix.data))
        try:
            found = matrix.tocoo()
        except ValueError as error:
            raise InputError(f"a sparse matrix that contradicts itself: {error}") from error
        rows, columns = (np.asarray(axis) for axis in (found.row, found.col))
        return from_entries(_shape(matrix), vector, rows, columns, np.asarray(found.data))
    kind = f"torch tensor of layout {layout}" if layout else type(matrix).__name__
    raise InputError(
        f"a sparse matrix is expected, found {kind:.60}: give a numpy array, a matrix of "
        "scipy.sparse, a torch CSR or BSR tensor, or one of autoq's own formats"
    )


def _shape(matrix: Any) -> tuple[int, int]:
    shape = tuple(int(extent) for extent in matrix.shape)
    if len(shape) != 2:
        raise InputError(f"a sparse matrix of shape {list(shape)}: two axes are expected")
    return (shape[0], shape[1])


def _lists(matrix: Any) -> int:
    """Rows, columns or rows of blocks of a matrix of scipy.sparse that has pointers to them."""
    if matrix.format == "bsr":
        return int(matrix.shape[0]) // int(matrix.blocksize[0])
    return int(matrix.shape[1 if matrix.format == "csc" else 0])


def _check_pointers(pointers: Any, lists: int, indices: int, values: int) -> None:
    """Raise InputError unless pointers divide the indices, and as many values, into lists.

    Neither scipy nor torch looks at them before it follows them.
    """
    array = np.asarray(pointers)
    whole = array.shape == (lists + 1,) and array[0] == 0 and array[-1] <= indices == values
    if not whole or (np.diff(array) < 0).any():
        raise InputError(
            f"a sparse matrix that contradicts itself: its pointers do not divide {indices} "
            f"indices and {values} values into {lists}"
        )


def _torch_entries(tensor: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns and values of the scalars of a torch tensor, CSR or BSR."""
    pointers, indices, values = (
        np.asarray(part.detach().cpu().numpy())
        for part in (tensor.crow_indices(), tensor.col_indices(), tensor.values())
    )
    height = values.shape[1] if values.ndim == 3 else 1
    _check_pointers(pointers, tensor.shape[0] // height, len(indices), len(values))
    blocks = values.reshape(len(indices), *(values.shape[1:] or (1, 1)))
    row_of = np.repeat(np.arange(len(pointers) - 1), np.diff(pointers))
    _, height, width = blocks.shape
    rows = row_of[:, None, None] * height + np.arange(height)[:, None]
    columns = indices[:, None, None] * width + np.arange(width)
    rows, columns = (np.broadcast_to(axis, blocks.shape).reshape(-1) for axis in (rows, columns))
    return rows, columns, blocks.reshape(-1)


def to_csr(matrix: VectorMatrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, columns and pointers of each row's scalars, as `scipy.sparse.csr_array` takes them.

    Zeros inside vectors are stored as well.
    """
    scalars = from_entries((matrix.rows, matrix.columns), 1, *matrix.entries())
    return scalars.values[:, 0], scalars.indices, scalars.pointers


def to_bsr(matrix: VectorMatrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Blocks [vectors, vector, 1], columns and pointers, as `scipy.sparse.bsr_array` takes them.

    The shape that goes with them has whole vector rows.
    """
    return matrix.values[:, :, None], matrix.indices, matrix.pointers
