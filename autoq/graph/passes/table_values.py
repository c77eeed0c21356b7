"""The values of element-wise functions of a quantised tensor, one for each of its bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autoq.graph.ir import Graph, Operation, Operator
from autoq.graph.operator_numpy import evaluate_operator
from autoq.graph.passes.steps import StepWriter
from autoq.templates.element import INTEGER_RANGE
from autoq.templates.storage import value_dtype
from autoq.templates.table import ENTRIES


def input_values(dtype: str) -> np.ndarray:
    """The value [256] of each byte, int8 or uint8; bytes that a 4-bit type lacks take its ends."""
    values = np.arange(ENTRIES, dtype=np.uint8).view(value_dtype(dtype))
    return np.clip(values, *INTEGER_RANGE[dtype])


def entries_of_operation(
    graph: Graph, node: Operation, arguments: Sequence[np.ndarray]
) -> np.ndarray:
    """An element-wise operation over values [256] and scalars."""
    writer = StepWriter(0, [np.asarray(argument) for argument in arguments])
    writer.write(graph, node, list(range(len(arguments))))
    steps, constants = writer.finish()
    return _evaluated(Operator(steps, (), (), (), constants, node.output, (ENTRIES,), ()), [])


def entries_of_program(node: Operation, dtype: str) -> np.ndarray:
    """A `fused.program` of element-wise steps of one tensor of `dtype` and scalars."""
    constants = tuple(array.reshape(()) for array in node.attributes["constants"])
    operator = Operator(
        node.attributes["steps"], node.inputs, ((ENTRIES,),), (dtype,), constants, node.output,
        (ENTRIES,), (),
    )  # fmt: skip
    return _evaluated(operator, [input_values(dtype)])


def _evaluated(operator: Operator, inputs: list[np.ndarray]) -> np.ndarray:
    with np.errstate(all="ignore"):
        return evaluate_operator(operator, inputs)
