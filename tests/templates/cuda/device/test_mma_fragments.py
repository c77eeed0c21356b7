"""The maps of MMA atoms against the rules that the PTX ISA prints for each shape."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from atom_cases import STEPS, arrays, image, random_case, result, wrong
from hypothesis import given
from hypothesis import strategies as st

from autoq.templates.arrays.element import element
from autoq.templates.cuda.device.memory.swizzle import swizzled_address
from autoq.templates.cuda.device.mma.atom import Atom
from autoq.templates.cuda.device.mma.catalogue import atoms, largest, mma_sync_atoms, wgmma_atoms
from autoq.templates.cuda.device.mma.fragments import gather, scatter
from autoq.templates.cuda.device.mma.mma_sync import MmaSync
from autoq.templates.cuda.device.mma.registers import compress, from_words, to_words
from autoq.templates.cuda.device.mma.wgmma import Wgmma
from autoq.templates.oracle.random_arrays import random_array
from autoq.templates.target import parse_target

HOPPER = parse_target("cuda:sm_90a")
ATOMS = [atom for atom in atoms(HOPPER) if isinstance(atom, MmaSync) or atom.n in (8, 24, 256)]

Rule = Callable[[int, int, int], tuple[int, int]]
"""Row and column of element i of a thread: group (lane / 4), thread in the group, i."""

A_RULES: dict[tuple[str, int, int], Rule] = {
    ("8", 8, 16): lambda g, t, i: (g, t * 4 + i),
    ("4", 8, 32): lambda g, t, i: (g, t * 8 + i),
    ("8", 16, 16): lambda g, t, i: (g if i < 4 else g + 8, t * 4 + i % 4),
    ("8", 16, 32): lambda g, t, i: (
        g if i < 4 or 8 <= i < 12 else g + 8,
        t * 4 + i % 4 + (0 if i < 8 else 16),
    ),
    ("4", 16, 32): lambda g, t, i: (g if i < 8 else g + 8, t * 8 + i % 8),
    ("4", 16, 64): lambda g, t, i: (
        g if i < 8 or 16 <= i < 24 else g + 8,
        t * 8 + i % 8 + (0 if i < 16 else 32),
    ),
    ("16", 16, 8): lambda g, t, i: (g if i < 2 else g + 8, t * 2 + i % 2),
    ("16", 16, 16): lambda g, t, i: (
        g if i in (0, 1, 4, 5) else g + 8,
        t * 2 + i % 2 + (0 if i < 4 else 8),
    ),
}
"""By bits, rows and stored columns."""

B_RULES: dict[tuple[str, int], Rule] = {
    ("8", 16): lambda g, t, i: (g, t * 4 + i),
    ("8", 32): lambda g, t, i: (g, t * 4 + i % 4 + (0 if i < 4 else 16)),
    ("8", 64): lambda g, t, i: (g, t * 4 + i % 4 + i // 4 * 16),
    ("4", 32): lambda g, t, i: (g, t * 8 + i),
    ("4", 64): lambda g, t, i: (g, t * 8 + i % 8 + (0 if i < 8 else 32)),
    ("16", 8): lambda g, t, i: (g, t * 2 + i),
    ("16", 16): lambda g, t, i: (g, t * 2 + i % 2 + (0 if i < 2 else 8)),
    ("16", 32): lambda g, t, i: (g, t * 2 + i % 2 + i // 2 * 8),
}
"""By bits and k; the row is the column of the ISA's B."""


def by_rule(rule: Rule, threads: int, values: int) -> np.ndarray:
    """The map [threads, values, 2] of a rule for one warp, repeated 16 rows further for others."""
    places = [
        [rule(thread % 32 // 4, thread % 4, i) for i in range(values)] for thread in range(threads)
    ]
    found = np.array(places)
    found[..., 0] += np.arange(threads)[:, None] // 32 * 16
    return found


@pytest.mark.parametrize("atom", ATOMS, ids=str)
def test_maps_follow_the_printed_rules(atom: Atom) -> None:
    bits = str(atom.a_element.bits)
    a = atom.a_fragment().reshape(atom.threads, -1, 2)
    rows = 16 if isinstance(atom, Wgmma) else atom.m
    rule = A_RULES[bits, rows, atom.stored_k]
    np.testing.assert_array_equal(a, by_rule(rule, atom.threads, a.shape[1]))
    d = atom.d_fragment().reshape(atom.threads, -1, 2)

    def sums(g: int, t: int, i: int) -> tuple[int, int]:
        if atom.m == 8:
            return g, t * 2 + i
        return g + (0 if i % 4 < 2 else 8), i // 4 * 8 + t * 2 + i % 2

    np.testing.assert_array_equal(d, by_rule(sums, atom.threads, d.shape[1]))
    if isinstance(atom, MmaSync):
        b = atom.b_fragment().reshape(32, -1, 2)
        np.testing.assert_array_equal(b, by_rule(B_RULES[bits, atom.k], 32, b.shape[1]))


@pytest.mark.parametrize("atom", ATOMS, ids=str)
def test_every_element_is_held_once(atom: Atom) -> None:
    maps = [(atom.a_fragment(), (atom.m, atom.stored_k)), (atom.d_fragment(), (atom.m, atom.n))]
    if isinstance(atom, MmaSync):
        maps.append((atom.b_fragment(), (atom.n, atom.k)))
    for fragment, shape in maps:
        count = np.zeros(shape, int)
        np.add.at(count, tuple(fragment.reshape(-1, 2).T), 1)
        assert (count == 1).all()


SPARSE = [atom for atom in ATOMS if atom.sparse]


def decoded(atom: Atom, stored: np.ndarray, metadata: np.ndarray, selector: int) -> np.ndarray:
    """The matrix A [m, k] of stored values and metadata [threads], by the ISA's figures."""
    matrix = np.zeros((atom.m, atom.k), stored.dtype)
    for row in range(atom.m):
        warp, group, below = row // 16, row % 8, row % 16 // 8
        for chunk in range(atom.k // 4):
            if atom.k == 64:  # all four threads: row and row + 8, then their second halves
                thread, bit = chunk // 8 * 2 + below, chunk % 8 * 4
            else:  # a pair of threads: halves of a row, that of row + 8 in the upper 16 bits
                thread, bit = selector * 2 + chunk // 4, below * 16 + chunk % 4 * 4
            field = int(metadata[warp * 32 + group * 4 + thread]) >> bit & 15
            first, second = field & 3, field >> 2
            assert first < second
            matrix[row, chunk * 4 + first] = stored[row, chunk * 2]
            matrix[row, chunk * 4 + second] = stored[row, chunk * 2 + 1]
    return matrix


@pytest.mark.parametrize("atom", SPARSE, ids=str)
def test_metadata_says_where_values_belong(atom: Atom) -> None:
    for selector in (0, 1) if atom.k == 32 else (0,):
        case = random_case(atom, np.random.default_rng(3), selector)
        words = arrays(case)[2]
        for step in range(STEPS):
            stored, _ = compress(case.a[step])
            found = decoded(atom, stored, words[step, :, 0], selector)
            np.testing.assert_array_equal(np.float32(found), np.float32(case.a[step]))


@given(seed=st.integers(0, 999), rows=st.integers(1, 5), chunks=st.integers(1, 6))
def test_compressing_keeps_all_values_in_order(seed: int, rows: int, chunks: int) -> None:
    rng = np.random.default_rng(seed)
    kept = rng.permuted(np.tile([1, 1, 0, 0], (rows * chunks, 1)), axis=1)
    matrix = (kept * rng.integers(-2, 3, kept.shape)).astype(np.int8).reshape(rows, 4 * chunks)
    values, places = compress(matrix)
    assert (places[..., 0] < places[..., 1]).all()
    back = np.zeros_like(matrix).reshape(rows, chunks, 4)
    np.put_along_axis(back, places, values.reshape(rows, chunks, 2), axis=-1)
    np.testing.assert_array_equal(back.reshape(matrix.shape), matrix)


def test_three_values_of_four_are_refused() -> None:
    matrix = np.zeros((3, 8), np.int8)
    matrix[1, 4:7] = 1
    with pytest.raises(ValueError, match="row 1 has more than two values in its chunk 1 of four"):
        compress(matrix)


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int8", "float16", "bfloat16", "float8_e4m3fn"])
def test_words_hold_the_first_value_lowest(dtype: str) -> None:
    kind = element(dtype)
    values = random_array(np.random.default_rng(1), (5, kind.per_word), dtype)
    words = to_words(values, dtype)
    assert words.shape == (5,) and words.dtype == np.uint32
    lowest = words & np.uint32(2**kind.bits - 1)
    own = values[:, 0].view(f"u{values.itemsize}") & np.uint32(2**kind.bits - 1)
    np.testing.assert_array_equal(lowest, own)
    if not kind.packed:
        np.testing.assert_array_equal(
            from_words(words, dtype).view(np.uint8), values.view(np.uint8)
        )


def test_maps_are_undone() -> None:
    atom = largest(HOPPER, "int8", "int8", "int32")
    matrix = np.random.default_rng(1).integers(-128, 128, (16, 32)).astype(np.int8)
    np.testing.assert_array_equal(scatter(gather(matrix, atom.a_fragment()), atom.a_fragment()),
                                  matrix)  # fmt: skip


def test_the_largest_product_of_a_target_is_found() -> None:
    shapes = {"sm_75": (8, 8, 16), "sm_80": (16, 8, 32), "sm_89": (16, 8, 32)}
    for arch, shape in shapes.items():
        target = parse_target(f"cuda:{arch}")
        assert largest(target, "uint8", "int8", "int32").shape == shape
        assert not wgmma_atoms(target)
    with pytest.raises(ValueError, match=r"sm_75 has no mma\.sync of bfloat16 and bfloat16"):
        largest(parse_target("cuda:sm_75"), "bfloat16", "bfloat16", "float32")
    assert {atom.a for atom in mma_sync_atoms(parse_target("cuda:sm_89"))} == {
        "int8", "uint8", "int4", "uint4", "float16", "bfloat16", "float8_e4m3fn"
    }  # fmt: skip


@pytest.mark.parametrize("atom", ATOMS[::7], ids=str)
def test_a_damaged_result_is_noticed(atom: Atom) -> None:
    case = random_case(atom, np.random.default_rng(2))
    exact = case.expected
    right = exact.astype(np.float32 if atom.a_element.floating else np.int32)
    assert wrong(case, right) is None
    right[atom.m - 1, 3] += 100
    assert "1 of" in str(wrong(case, right))


def test_calls_with_other_operands_are_refused() -> None:
    atom = MmaSync((16, 8, 32), "int8", "int8", "int32")
    with pytest.raises(ValueError, match=r"\(4, 3, 2\) registers"):
        atom.call([0] * 4, [0] * 3, [0] * 2)
    with pytest.raises(ValueError, match="metadata belongs to sparse products"):
        atom.call([0] * 4, [0] * 4, [0] * 2, metadata=1)
    with pytest.raises(ValueError, match="metadata belongs to sparse products"):
        Wgmma((64, 8, 64), "int8", "int8", "int32", True).call(None, 0, 0, 0, True)


@pytest.mark.parametrize("dtype", ["int8", "float16", "bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("row_bytes", [32, 64, 128])
def test_images_lie_as_descriptors_read_them(dtype: str, row_bytes: int) -> None:
    columns = row_bytes // element(dtype).bytes // STEPS
    matrices = random_array(np.random.default_rng(5), (STEPS, 24, columns), dtype)
    lying = image(matrices).view(np.uint8)
    for step, row, column in np.ndindex(matrices.shape):
        first = row * row_bytes + (step * columns + column) * element(dtype).bytes
        at = swizzled_address(first, row_bytes)
        found = lying[at : at + element(dtype).bytes]
        assert found.tobytes() == matrices[step, row, column].tobytes()


def test_results_are_read_as_they_are_stored() -> None:
    for accumulator in ("float16", "float32"):
        atom = MmaSync((16, 8, 16), "float16", "float16", accumulator)
        case = random_case(atom, np.random.default_rng(4))
        np.testing.assert_array_equal(result(case, arrays(case)[-1]), case.c)
