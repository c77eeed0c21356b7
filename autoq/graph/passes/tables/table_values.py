"""The values of element-wise functions of a quantised tensor, one for each of its bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autoq.graph.ir import Fusion, Graph, Operation
from autoq.graph.passes.fusions.primitives import PrimitiveWriter
from autoq.graph.primitive_numpy import evaluate_fusion
from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.arrays.storage import value_dtype
from autoq.templates.arrays.table import ENTRIES


def input_values(dtype: str) -> np.ndarray:
    """The value [256] of each byte, int8 or uint8; bytes that a 4-bit type lacks take its ends."""
    values = np.arange(ENTRIES, dtype=np.uint8).view(value_dtype(dtype))
    return np.clip(values, *INTEGER_RANGE[dtype])


def entries_of_operation(
    graph: Graph, node: Operation, arguments: Sequence[np.ndarray]
) -> np.ndarray:
    """An element-wise operation over values [256] and scalars."""
    writer = PrimitiveWriter(0, [np.asarray(argument) for argument in arguments])
    writer.write(graph, node, list(range(len(arguments))))
    primitives, constants = writer.finish()
    return _evaluated(Fusion(primitives, (), (), (), constants, node.output, (ENTRIES,), ()), [])


def entries_of_fusion(node: Operation, dtype: str) -> np.ndarray:
    """A `fused.primitives` of element-wise primitives of one tensor of `dtype` and scalars."""
    constants = tuple(array.reshape(()) for array in node.attributes["constants"])
    fusion = Fusion(
        node.attributes["primitives"], node.inputs, ((ENTRIES,),), (dtype,), constants, node.output,
        (ENTRIES,), (),
    )  # fmt: skip
    return _evaluated(fusion, [input_values(dtype)])


def _evaluated(fusion: Fusion, inputs: list[np.ndarray]) -> np.ndarray:
    with np.errstate(all="ignore"):
        return evaluate_fusion(fusion, inputs)
