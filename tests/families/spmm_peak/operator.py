"""`y = A b + addend` for a sparse A, and the largest element of each row of y."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.errors import InputError
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.oracle.random_arrays import random_array, random_inputs
from autoq.templates.sparse.structure import Structure
from autoq.templates.workload import Arrays, Constants, Workload


@dataclass(frozen=True)
class SpmmPeak(Workload, operator="spmm_peak"):
    """A [m, k] has int8 `values` at `columns` of the rows that `pointers` [m + 1] bound.

    Activations: b int8 [k, n], addend int32 [m, n]. Outputs: y int32 [m, n], peak int32 [m].
    """

    m: int
    n: int
    k: int
    structure: Structure

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        b = TensorSpec("b", (self.k, self.n), "int8")
        return b, TensorSpec("addend", (self.m, self.n), "int32")

    @property
    def constants(self) -> tuple[TensorSpec, ...]:
        blocks = (self.structure.blocks,)
        return (
            TensorSpec("values", blocks, "int8", at_most=True),
            TensorSpec("columns", blocks, "int32", at_most=True),
            TensorSpec("pointers", (self.m + 1,), "int32"),
        )

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        y = TensorSpec("y", (self.m, self.n), "int32")
        return y, TensorSpec("peak", (self.m,), "int32")

    @property
    def operations(self) -> int:
        """Products and sums, and a comparison an element of y."""
        return 2 * self.structure.blocks * self.n + 2 * self.m * self.n

    def check_constants(self, constants: Constants) -> None:
        super().check_constants(constants)
        found = Structure.of(np.diff(constants["pointers"]))
        if found != self.structure:
            raise InputError(f"{self}: the matrix is of {found}, not of {self.structure}")

    def reference(self, activations: Sequence[np.ndarray], constants: Constants) -> Arrays:
        b, y = activations[0].astype(np.int32), activations[1].copy()
        values, columns = constants["values"].astype(np.int32), constants["columns"]
        bounds = zip(constants["pointers"][:-1], constants["pointers"][1:], strict=True)
        for row, (start, stop) in enumerate(bounds):
            y[row] += values[start:stop] @ b[columns[start:stop]]
        return y, y.max(axis=1)

    def random_case(self, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
        lengths = self.structure.random_lengths(rng, self.m, self.k)
        rows = [np.sort(rng.permutation(self.k)[:length]) for length in lengths]
        return random_inputs(rng, self.inputs), {
            "values": random_array(rng, (int(lengths.sum()),), "int8"),
            "columns": np.concatenate(rows).astype(np.int32),
            "pointers": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        }

    def __str__(self) -> str:
        return f"spmm_peak {self.m}x{self.n}x{self.k} of {self.structure.blocks} blocks"
