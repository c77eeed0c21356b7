"""Formats of sparse matrices against numpy, from and to everything that they convert with."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from autoq.errors import InputError
from autoq.templates.sparse.conversion import to_bsr, to_csr, to_vectors
from autoq.templates.sparse.generation import (
    RESNET50_SHAPES,
    SPARSITIES,
    TRANSFORMER_SHAPES,
    dilated,
    random_matrix,
)
from autoq.templates.sparse.strided import SHUFFLE, StridedMatrix, from_strided, to_strided
from autoq.templates.sparse.suited import suited_vector
from autoq.templates.sparse.vector_matrix import VectorMatrix, from_dense


class TorchTensor:
    """What is asked of a torch tensor of layout sparse_csr or sparse_bsr."""

    def __init__(self, layout: str, shape: tuple[int, int], *parts: np.ndarray) -> None:
        self.layout, self.shape = f"torch.{layout}", shape
        self.crow_indices, self.col_indices, self.values = (Part(part) for part in parts)


class Part:
    """One array of such a tensor, on some device."""

    def __init__(self, array: np.ndarray) -> None:
        self.numpy = lambda: array

    def __call__(self) -> Part:
        return self

    detach = cpu = __call__


@st.composite
def matrices(draw: st.DrawFn) -> np.ndarray:
    """Small matrices: empty, full, of a single row, ragged."""
    rows, columns = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    density = draw(st.sampled_from((0.0, 0.05, 0.3, 1.0)))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    return rng.integers(-128, 128, (rows, columns), np.int8) * (
        rng.random((rows, columns)) < density
    )


@settings(deadline=None, max_examples=60)
@given(matrices(), st.sampled_from((1, 2, 4, 8, 16, 32, 128)), st.sampled_from((8, 16, 32)))
def test_every_format_holds_the_same_matrix(array: np.ndarray, vector: int, stride: int) -> None:
    found = from_dense(array, vector)
    rows = -(-array.shape[0] // vector)
    padded = np.zeros((rows * vector, array.shape[1]), np.int8)
    padded[: array.shape[0]] = array
    touched = padded.reshape(rows, vector, -1).any(axis=1)
    np.testing.assert_array_equal(found.lengths, touched.sum(axis=1))
    np.testing.assert_array_equal(found.indices, np.nonzero(touched)[1])
    for shuffled in (False, True):
        strided = to_strided(found, stride, shuffled)
        assert (strided.starts % stride == 0).all() and len(strided.indices) % stride == 0
        whole = strided.values.transpose(0, 2, 1).reshape(-1, vector)
        assert np.count_nonzero(whole) == np.count_nonzero(array)
        back = [found, from_strided(strided), to_vectors(strided, 4)]
    back.append(to_vectors(scipy.sparse.csr_array(to_csr(found), shape=array.shape), vector))
    back.append(to_vectors(scipy.sparse.bsr_array(to_bsr(found), shape=padded.shape), 2))
    back.append(to_vectors(scipy.sparse.coo_array(array), vector))
    for one in back:
        np.testing.assert_array_equal(one.to_dense()[: array.shape[0]], array)


@settings(deadline=None, max_examples=40)
@given(matrices(), st.sampled_from((1, 2, 8)), st.sampled_from((16, 32, 128)))
def test_joined_vectors_are_those_of_the_dense_matrix(
    array: np.ndarray, vector: int, longer: int
) -> None:
    found, expected = to_vectors(from_dense(array, vector), longer), from_dense(array, longer)
    for name in ("pointers", "indices", "values"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_torch_tensors_convert_scalars_and_blocks() -> None:
    array = np.array([[0, 0, 1, 2], [0, 0, 3, 0], [4, 5, 0, 0], [6, 7, 0, 0]], np.int8)
    csr = scipy.sparse.csr_array(array)
    bsr = scipy.sparse.bsr_array(array, blocksize=(2, 2))
    for name, one in (("sparse_csr", csr), ("sparse_bsr", bsr)):
        tensor = TorchTensor(name, array.shape, one.indptr, one.indices, one.data)
        np.testing.assert_array_equal(to_vectors(tensor, 2).to_dense(), array)
    with pytest.raises(InputError, match=r"found torch tensor of layout torch\.strided"):
        to_vectors(TorchTensor("strided", (1, 1), *[array] * 3), 2)


def test_a_mask_keeps_zeros_that_it_touches() -> None:
    array, mask = np.zeros((4, 3), np.int8), np.zeros((4, 3), bool)
    array[0, 1], array[1, 0], mask[1, 1], mask[2, 2] = 7, 5, True, True
    found = from_dense(array, 2, mask)
    assert found.indices.tolist() == [1, 2] and not found.values.any()


def test_columns_are_shuffled_so_that_nibbles_come_out_in_order() -> None:
    """Eight rows as read, four bytes of a word transposed, then low and high nibbles parted."""
    matrix = from_dense(np.ones((1, 8), np.int8), 1)
    rows = to_strided(matrix, 8, shuffled=True).indices
    assert tuple(rows) == SHUFFLE
    nibbles = [word for pair in zip(rows[:4], rows[4:], strict=True) for word in pair]
    assert nibbles == list(range(8))


@pytest.mark.parametrize("shape", [RESNET50_SHAPES[9], *TRANSFORMER_SHAPES[:1]])
@pytest.mark.parametrize("sparsity", SPARSITIES)
def test_random_matrices_have_uneven_rows(shape: tuple[int, int], sparsity: float) -> None:
    rng = np.random.default_rng(5)
    matrix = random_matrix(rng, shape, sparsity)
    lengths = matrix.lengths
    assert lengths.std() >= 0.3 * lengths.mean()
    assert abs(1 - lengths.mean() / shape[1] - sparsity) < 0.02
    wide = dilated(matrix, 4, rng)
    assert (wide.rows, wide.columns) == (4 * shape[0], shape[1])
    np.testing.assert_array_equal(wide.pointers, matrix.pointers)


GOOD = {"pointers": [0, 1, 3], "indices": [2, 0, 3], "values": [[1, 2], [3, 4], [5, 0]]}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"indices": [2, 0, 4]}, "index 2 is column 4; the matrix has 4"),
        ({"indices": [2, 3, 0]}, "column 0 behind 3 of the same row"),
        ({"indices": [2, 0]}, "from 0 to 3; expected to rise from 0 to 2"),
        ({"pointers": [0, 3]}, r"2 rows take pointers \[3\]"),
        ({"values": [[1, 2], [3, 4]]}, r"values are \[2, 2\]; 3 indices .* take \[3, 2\]"),
        ({"values": [[1, 2], [3, 4], [5, 6]]}, "values below row 3"),
        ({"values": [[1, 2], [3, 4], [np.nan, 0]]}, "NaN"),
        ({"pointers": [0.0, 1.0, 3.0]}, "both are integers"),
    ],
)
def test_arrays_that_do_not_fit_are_one_line(change: dict, complaint: str) -> None:
    arrays = {name: np.array(array) for name, array in {**GOOD, **change}.items()}
    with pytest.raises(InputError, match=complaint):
        VectorMatrix(3, 4, 2, **arrays)


def test_entries_that_do_not_fit_are_one_line() -> None:
    twice = scipy.sparse.coo_array((np.ones(2), ([1, 1], [0, 0])), shape=(2, 2))
    with pytest.raises(InputError, match="given twice"):
        to_vectors(twice, 2)
    beyond = scipy.sparse.csr_array(np.eye(2))
    beyond.indices[0] = 9
    with pytest.raises(InputError, match=r"contradicts itself: .* 9 "):
        to_vectors(beyond, 2)
    with pytest.raises(InputError, match="found list"):
        to_vectors([[1]], 2)
    good = to_strided(from_dense(np.ones((2, 9), np.int8), 2), 8)
    cut = StridedMatrix(2, 9, 2, 8, good.starts, good.ends, good.indices, good.values[:1])
    with pytest.raises(InputError, match=r"take values \[2, 2, 8\]"):
        from_strided(cut)


def test_vectors_are_as_long_as_they_may_be_without_storing_more() -> None:
    rng = np.random.default_rng(4)
    blocks = random_matrix(rng, (256, 100), 0.8, 32)
    single = random_matrix(rng, (256, 100), 0.8, 8)
    for matrix, expected in ((blocks, 32), (single, 8)):
        rows, columns, _ = matrix.entries()
        assert suited_vector(rows, columns, 100, (8, 16, 32, 64, 128)) == expected


@pytest.mark.parametrize(
    "pointers", [[0, 1, 2], [0, 1, 2, 9], [0, 3, 2, 4], [1, 2, 3, 4], [0, -1, 2, 4]]
)
def test_pointers_of_other_libraries_are_looked_at_before_they_are_followed(
    pointers: list[int],
) -> None:
    square, whole = np.eye(6, dtype=np.int8), scipy.sparse.csr_array(np.eye(6)[:3])
    whole.indptr = np.array(pointers)
    blocks = scipy.sparse.bsr_array(square, blocksize=(2, 2))
    values = np.ones((len(blocks.indices), 2, 2), np.int8)
    blocks.indptr = np.array(pointers)
    columns = scipy.sparse.csc_array(np.eye(6)[:, :3])
    columns.indptr = np.array(pointers)
    tensor = TorchTensor("sparse_bsr", (6, 6), np.array(pointers), blocks.indices, values)
    for torn in (whole, blocks, columns, tensor):
        with pytest.raises(InputError, match="contradicts itself: its pointers do not divide 3"):
            to_vectors(torn, 2)
