"""Attention whose queries see some keys each, with quantised products and a quantised softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.errors import InputError
from autoq.templates.arrays.element import element
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.field_types import require_positive
from autoq.templates.oracle.random_arrays import random_inputs
from autoq.templates.oracle.sparse_attention import attention_of_pair
from autoq.templates.oracle.threads import in_threads
from autoq.templates.sparse.generation import matrix_of_lengths
from autoq.templates.sparse.structure import Structure
from autoq.templates.sparse.vector_matrix import VectorMatrix
from autoq.templates.target import Target
from autoq.templates.workload import Arrays, Constants, Tolerance, Workload

GROUP = 8
"""Rows of a vector of the mask: queries whose keys are looked up together."""

ORDERS = ("bhld", "blhd")
"""Orders of the axes of q, k, v and y: batch, heads, rows, depth, or batch, rows, heads, depth."""

_DTYPES = ("float16", "bfloat16")
_MOST_DEPTH, _MOST_KEYS = 128, 65536
_SOFTMAX_BITS, _QKV_BITS = (8, 16), (4, 8)


@dataclass(frozen=True)
class SparseAttention(Workload, operator="sparse_attention"):
    """`softmax(scale * q k^T) v` over the keys that a mask keeps, of `batch * heads` pairs.

    q and y are [batch, heads, queries, depth], k and v [batch, heads, keys, depth], all of dtype;
    with the order "blhd" heads stand behind queries and keys, as projections write them.
    structure: the class of the mask, by its vectors of eight rows of one column each. All pairs
    share the mask. The constants are `columns` (int32 [vectors]) and `pointers` (int32 [vector
    rows + 1]), those of a `VectorMatrix`; `kept` (uint8 [vectors]), of each vector which of its
    rows are kept, the first in the lowest bit; and `scale` (float32 [1]), a positive number.

    The layer is that of Magicube (Li, Osawa, Hoefler, SC 2022), with steps of quantisation that
    follow from the arrays: of k and v one a pair, of q one a row, the largest magnitude over
    `2^(qkv_bits - 1) - 1`. Scores are exact sums of products of such integers. Shares are powers of
    the score less the row's largest, rounded at 1 over `2^softmax_bits - 1`; a kernel may round at
    twice that, or finer while it has not seen the largest yet. Products of shares and values are
    exact, and divided by the sum of the shares. A query that sees no key gives zeros.

    Raises InputError for extents, dtypes and bits that are none of these.
    """

    batch: int
    heads: int
    queries: int
    keys: int
    depth: int
    structure: Structure
    dtype: str = "float16"
    softmax_bits: int = 8
    qkv_bits: int = 8
    order: str = "bhld"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "batch", "heads", "queries", "keys", "depth")
        if self.dtype not in _DTYPES:
            raise InputError(f"sparse attention of {self.dtype}: choose {' or '.join(_DTYPES)}")
        for name, known in (("softmax_bits", _SOFTMAX_BITS), ("qkv_bits", _QKV_BITS)):
            if getattr(self, name) not in known:
                words = " or ".join(map(str, known))
                raise InputError(f"{name} {getattr(self, name)}: choose {words}")
        if self.order not in ORDERS:
            raise InputError(f"axes {self.order!r}: choose {' or '.join(ORDERS)}")
        if self.depth % 8 or self.depth > _MOST_DEPTH:
            raise InputError(
                f"heads of {self.depth} values: choose a multiple of 8, up to {_MOST_DEPTH}"
            )
        if self.keys > _MOST_KEYS:
            raise InputError(f"{self.keys} keys: sums over at most {_MOST_KEYS} fit 32 bits")

    @property
    def pairs(self) -> int:
        """How many batches and heads there are together."""
        return self.batch * self.heads

    @property
    def groups(self) -> int:
        """Vector rows of the mask."""
        return -(-self.queries // GROUP)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        shapes = {"q": self.queries, "k": self.keys, "v": self.keys}
        return tuple(
            TensorSpec(name, self._shape(rows), self.dtype) for name, rows in shapes.items()
        )

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("y", self._shape(self.queries), self.dtype),)

    def _shape(self, rows: int) -> tuple[int, int, int, int]:
        extents = {"b": self.batch, "h": self.heads, "l": rows, "d": self.depth}
        b, first, second, d = (extents[axis] for axis in self.order)
        return b, first, second, d

    @property
    def row_step(self) -> int:
        """How many rows of `depth` values lie from one query or key of a pair to the next."""
        return self.heads if self.order == "blhd" else 1

    @property
    def constants(self) -> tuple[TensorSpec, ...]:
        return (
            TensorSpec("columns", (self.structure.blocks,), "int32", at_most=True),
            TensorSpec("pointers", (self.groups + 1,), "int32"),
            TensorSpec("kept", (self.structure.blocks,), "uint8", at_most=True),
            TensorSpec("scale", (1,), "float32"),
        )

    @property
    def operations(self) -> int:
        """Multiplications and additions of both products, of the vectors that there are."""
        return 4 * self.pairs * self.structure.blocks * GROUP * self.depth

    @property
    def operations_by_dtype(self) -> dict[str, int]:
        return {"int8": self.operations}

    def tolerance(self, target: Target) -> Tolerance:
        """Shares that are rounded elsewhere differ by a step each, with random signs.

        As a share of a row's root mean square that is, of scores with a deviation of 1, a standard
        deviation of 0.29 steps over the root mean square of the shares, e^(1 - largest). Seven
        deviations are allowed, at twice the step and up to a largest score of 5.5, which one row in
        many thousands has: there shares of 8 bits lose most, and errors come up to the row itself.
        """
        unit = {"float16": 2.0**-11, "bfloat16": 2.0**-8}[self.dtype]
        step = 2.0 / (2**self.softmax_bits - 1)
        rounding = 7 * 0.29 * step * math.exp(4.5)
        return Tolerance(relative=2e-3 + 4 * unit + rounding, rows=True)

    def mask(self, constants: Constants) -> VectorMatrix:
        """The mask, ones where it keeps; raises InputError where the arrays are none."""
        pointers, columns, kept = (
            np.asarray(constants[name]) for name in ("pointers", "columns", "kept")
        )
        if kept.shape != columns.shape:
            raise InputError(f"kept is {list(kept.shape)} and columns {list(columns.shape)}")
        values = (kept[:, None] >> np.arange(GROUP)) & 1
        return VectorMatrix(
            self.queries, self.keys, GROUP, pointers, columns, values.astype(np.uint8)
        )

    def check_constants(self, constants: Constants) -> None:
        super().check_constants(constants)
        found = Structure.of(self.mask(constants).lengths)
        if found.blocks > self.structure.blocks or found.longest_row > self.structure.longest_row:
            raise InputError(f"{self}: the mask is of {found}, not of {self.structure}")
        scale = float(np.asarray(constants["scale"])[0])
        if not 0 < scale < math.inf:
            raise InputError(f"{self}: scale = {scale:g}; scores are multiplied by a positive one")

    def reference(self, activations: Sequence[np.ndarray], constants: Constants) -> Arrays:
        return self.reference_in_threads(activations, constants, 1)

    def reference_in_threads(
        self, activations: Sequence[np.ndarray], constants: Constants, threads: int
    ) -> Arrays:
        # Transposing the two axes between batch and depth is its own inverse.
        axes = (0, 2, 1, 3) if self.order == "blhd" else (0, 1, 2, 3)
        q, k, v = (
            array.transpose(axes).reshape(self.pairs, -1, self.depth) for array in activations
        )
        mask = self.mask(constants)
        scale = np.float32(np.asarray(constants["scale"])[0])
        y = np.empty(q.shape, element(self.dtype).dtype)

        def compute(pair: int) -> None:
            own = (q[pair], k[pair], v[pair])
            y[pair] = attention_of_pair(own, mask, scale, self.softmax_bits, self.qkv_bits)

        in_threads(compute, list(range(self.pairs)), threads)
        by_heads = y.reshape(self.batch, self.heads, self.queries, self.depth)
        return (np.ascontiguousarray(by_heads.transpose(axes)),)

    def random_case(self, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
        lengths = self.structure.random_lengths(rng, self.groups, self.keys)
        mask = matrix_of_lengths(rng, (self.queries, self.keys), GROUP, lengths)
        kept = np.full(len(mask.indices), 255, np.uint8)
        # Vectors are whole but in some groups, as where a mask ends within one.
        of_some = np.repeat(rng.random(self.groups) < 1 / 32, mask.lengths)
        partly = of_some & (rng.random(len(kept)) < 1 / 4)
        kept[partly] = rng.integers(0, 256, int(partly.sum()))
        inside = self.queries - (self.groups - 1) * GROUP
        kept[mask.pointers[-2] :] &= (1 << inside) - 1
        constants = {
            "columns": mask.indices,
            "pointers": mask.pointers,
            "kept": kept,
            "scale": np.array([rng.uniform(0.8, 1.2) / math.sqrt(self.depth)], np.float32),
        }
        return random_inputs(rng, self.inputs), constants

    def __str__(self) -> str:
        share = 1 - self.structure.blocks / (self.groups * self.keys)
        return (
            f"sparse attention {self.batch}x{self.heads} {self.queries}x{self.keys}x{self.depth} "
            f"{max(0.0, share):.3f} sparse {self.dtype} {self.softmax_bits}-{self.qkv_bits}"
            f"{'' if self.order == ORDERS[0] else ' ' + self.order}"
        )
