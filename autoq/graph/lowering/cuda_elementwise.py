"""Element-wise fusions as CUDA: each primitive is one statement over float32, in their order."""

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
from autoq.templates.cuda.movement.elementwise import ElementFormula

_MOST_OPERANDS = 12
_MOST_PRIMITIVES = 64


def element_formula(node: Fusion) -> ElementFormula | None:
    """The fusion for one element, None where it is not element-wise or of other dtypes.

    The last primitive may be a quantisation: its rounding is then the kernel's.
    """
    constants = [(array.shape, str(array.dtype)) for array in node.constants]
    operands = [*zip(node.input_shapes, node.input_dtypes, strict=True), *constants]
    shapes = [shape for shape, _ in operands]
    fits = (
        0 < len(operands) <= _MOST_OPERANDS
        and len(node.primitives) <= _MOST_PRIMITIVES
        and all(dtype in READ for _, dtype in operands)
        and node.primitives[-1].dtype in READ
        and all(map(is_expression, node.primitives))
        and 0 < math.prod(node.output_shape) < 1 << 31
    )
    if not fits or tuple(broadcast(shapes)) != tuple(node.output_shape):
        return None
    return _written(node, zero_points(node.primitives, len(operands)))


def _written(node: Fusion, taken: tuple[float, ...]) -> ElementFormula:
    last = node.primitives[-1]
    rounds = last.op == "quantize"
    names = [f"x{index}" for index in range(len(taken))]
    parameters = ", ".join(f"float {name}" for name in names)
    lines = [f"__device__ __forceinline__ float element({parameters}) {{"]
    for number, primitive in enumerate(node.primitives[:-1] if rounds else node.primitives):
        lines.append(f"  const float v{number} = {expression(primitive, names, taken)};")
        names.append(f"v{number}")
    result = names[-1]
    if rounds:
        result, factor = names[last.arguments[0]], exact_reciprocal(node)
        result = divided(last, result) if factor is None else multiplied(result, factor)
    source = HELPERS + "\n".join([*lines, f"  return {result};", "}\n"])
    return ElementFormula(source, taken, last.dtype, *output_bounds(last))
