"""Any element-wise function of one tensor of 8 or 4 bits, as a table."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.templates.arrays.storage import value_dtype
from autoq.templates.arrays.table import ENTRIES, look_up
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.oracle.random_arrays import random_array, random_inputs
from autoq.templates.workload import Arrays, Constants, Workload


@dataclass(frozen=True)
class Lookup(Workload, operator="lookup"):
    """`y[i] = table[x[i]]`, where a value x selects the entry of its byte, `x & 255`.

    in_dtype is int4, uint4, int8 or uint8; out_dtype one of these or float32. The operand `table`
    has 256 entries of the type that holds an unpacked value of out_dtype.
    """

    shape: tuple[int, ...]
    in_dtype: str = "int8"
    out_dtype: str = "int8"

    @property
    def y_shape(self) -> tuple[int, ...]:
        return self.shape

    @property
    def operations(self) -> int:
        """One lookup an element."""
        return math.prod(self.shape)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("x", self.shape, self.in_dtype),)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("y", self.shape, self.out_dtype),)

    @property
    def constants(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec("table", (ENTRIES,), self.out_dtype),)

    def reference(self, activations: Sequence[np.ndarray], constants: Constants) -> Arrays:
        table = np.asarray(constants["table"])
        return (
            np.ascontiguousarray(
                look_up(table, activations[0]).astype(value_dtype(self.out_dtype))
            ),
        )

    def random_case(self, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
        x = random_inputs(rng, self.inputs)
        return x, {"table": random_array(rng, (ENTRIES,), self.out_dtype)}

    def retyped(self, inputs: Sequence[str], outputs: Sequence[str]) -> Workload:
        return dataclasses.replace(self, in_dtype=inputs[0], out_dtype=outputs[0])

    def element_table(self, constants: Constants) -> np.ndarray | None:
        return np.asarray(constants["table"])

    def __str__(self) -> str:
        return "lookup " + "x".join(map(str, self.shape))


def packed_table(workload: Lookup, table: np.ndarray) -> np.ndarray:
    """The `table` operand [256] as kernels take it: entries of the output's unpacked type."""
    return np.ascontiguousarray(table, value_dtype(workload.out_dtype)).reshape(ENTRIES)
