"""Element-wise fusions as CUDA: every step one statement over float32, in the steps' order."""

from __future__ import annotations

import math

from autoq.graph.ir import Fusion
from autoq.graph.lowering.cuda_expressions import (
    HELPERS,
    READ,
    divided,
    expression,
    is_expression,
    multiplied,
    output_bounds,
    zero_points,
)
from autoq.graph.lowering.exact_reciprocal import exact_reciprocal
from autoq.graph.shapes import broadcast
from autoq.templates.cuda.movement.elementwise import ElementProgram

_MOST_OPERANDS = 8
_MOST_STEPS = 64


def element_program(node: Fusion) -> ElementProgram | None:
    """The fusion for one element, None where it is not element-wise or of other dtypes.

    The last step may be a quantisation: its rounding is then the kernel's.
    """
    constants = [(array.shape, str(array.dtype)) for array in node.constants]
    operands = [*zip(node.input_shapes, node.input_dtypes, strict=True), *constants]
    shapes = [shape for shape, _ in operands]
    fits = (
        0 < len(operands) <= _MOST_OPERANDS
        and len(node.steps) <= _MOST_STEPS
        and all(dtype in READ for _, dtype in operands)
        and node.steps[-1].dtype in READ
        and all(map(is_expression, node.steps))
        and 0 < math.prod(node.output_shape) < 1 << 31
    )
    if not fits or tuple(broadcast(shapes)) != tuple(node.output_shape):
        return None
    return _written(node, zero_points(node.steps, len(operands)))


def _written(node: Fusion, taken: tuple[float, ...]) -> ElementProgram:
    last = node.steps[-1]
    rounds = last.op == "quantize"
    names = [f"x{index}" for index in range(len(taken))]
    parameters = ", ".join(f"float {name}" for name in names)
    lines = [f"__device__ __forceinline__ float element({parameters}) {{"]
    for number, step in enumerate(node.steps[:-1] if rounds else node.steps):
        lines.append(f"  const float v{number} = {expression(step, names, taken)};")
        names.append(f"v{number}")
    result = names[-1]
    if rounds:
        result, factor = names[last.arguments[0]], exact_reciprocal(node)
        result = divided(last, result) if factor is None else multiplied(result, factor)
    source = HELPERS + "\n".join([*lines, f"  return {result};", "}\n"])
    return ElementProgram(source, taken, last.dtype, *output_bounds(last))
