"""Element-wise fusions as CUDA: each primitive is one statement over float32, in their order."""

from __future__ import annotations

import math
from collections.abc import Sequence

from autoq.graph.ir import Fusion, Primitive
from autoq.graph.lowering.cuda.expressions import (
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
from autoq.graph.lowering.joined_parts import Joined, joined_parts
from autoq.templates.cuda.movement.elementwise import ElementFormula

_MOST_OPERANDS = 12
_MOST_PRIMITIVES = 64


def element_formula(node: Fusion) -> ElementFormula | None:
    """The fusion for one element, None where it is not element-wise or of other dtypes.

    The last primitive may be a quantisation: its rounding is then the kernel's.
    """
    constants = [(array.shape, str(array.dtype)) for array in node.constants]
    operands = [*zip(node.input_shapes, node.input_dtypes, strict=True), *constants]
    fits = (
        0 < len(operands) <= _MOST_OPERANDS
        and len(node.primitives) <= _MOST_PRIMITIVES
        and all(dtype in READ for _, dtype in operands)
        and node.primitives[-1].dtype in READ
        and all(is_expression(p) or _joins(p) for p in node.primitives)
        and 0 < math.prod(node.output_shape) < 1 << 31
    )
    joined = joined_parts(node) if fits else None
    return joined and _written(node, zero_points(node.primitives, len(operands)), joined)


def _joins(primitive: Primitive) -> bool:
    """Whether it puts floats behind one another."""
    return primitive.op == "Concat" and primitive.dtype == "float32"


def _chosen(names: Sequence[str], ends: Sequence[int]) -> str:
    """The argument of a concatenation that has the output's row."""
    *others, text = names
    for name, end in reversed([*zip(others, ends, strict=False)]):
        text = f"(row < {end} ? {name} : {text})"
    return text


def _written(node: Fusion, taken: tuple[float, ...], joined: Joined) -> ElementFormula:
    last = node.primitives[-1]
    rounds = last.op == "quantize"
    names = [f"x{index}" for index in range(len(taken))]
    row = ["int row"] if joined.ends else []
    parameters = ", ".join([*(f"float {name}" for name in names), *row])
    lines = [f"__device__ __forceinline__ float element({parameters}) {{"]
    for number, primitive in enumerate(node.primitives[:-1] if rounds else node.primitives):
        if number in joined.ends:
            text = _chosen([names[at] for at in primitive.arguments], joined.ends[number])
        else:
            text = expression(primitive, names, taken)
        lines.append(f"  const float v{number} = {text};")
        names.append(f"v{number}")
    result = names[-1]
    if rounds:
        result, factor = names[last.arguments[0]], exact_reciprocal(node)
        result = divided(last, result) if factor is None else multiplied(result, factor)
    source = HELPERS + "\n".join([*lines, f"  return {result};", "}\n"])
    parts = joined.parts if joined.ends else None
    return ElementFormula(source, taken, last.dtype, *output_bounds(last), parts)
