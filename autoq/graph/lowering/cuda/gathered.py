"""Fusions over rows that indices choose from a constant table, as embeddings are, for CUDA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tvm.tirx import PrimFunc

from autoq.graph.ir import Fusion, Primitive
from autoq.graph.lowering.cuda.elementwise import element_formula
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.movement.elementwise import ElementFormula
from autoq.templates.cuda.movement.gathered_rows import INDICES, gathered_kernel, rows_are_whole
from autoq.templates.target import Target


@dataclass(frozen=True)
class GatheredFusion:
    """A fusion whose kernel reads rows of a table; indices, table: places among its operands."""

    node: Fusion
    indices: int
    table: int
    formula: ElementFormula

    def kernel(self, target: Target) -> PrimFunc:
        """Its kernel; parameters are the inputs, the constants and the output."""
        shape = self.node.output_shape
        arrays = _operands(self.node)
        return gathered_kernel(shape, arrays, self.indices, self.table, self.formula, target)


def gathered_fusion(node: Fusion) -> GatheredFusion | None:
    """The fusion as one that gathers rows of a constant first, None where it is anything else."""
    count = len(node.inputs) + len(node.constants)
    gathers = [at for at, primitive in enumerate(node.primitives) if primitive.op == "Gather"]
    if len(gathers) != 1 or len(node.primitives) < 2:
        return None
    gather = node.primitives[gathers[0]]
    table, indices = gather.arguments
    uses = [at for primitive in node.primitives for at in primitive.arguments]
    alone = uses.count(table) == uses.count(indices) == 1
    if not alone or not len(node.inputs) <= table < count or indices >= len(node.inputs):
        return None
    array, given = node.constants[table - len(node.inputs)], node.input_shapes[indices]
    whole = given + array.shape[1:] == node.output_shape
    if gather["axis"] % max(array.ndim, 1) or not whole or array.ndim < 2:
        return None
    others = [shape for at, shape in enumerate(node.input_shapes) if at != indices]
    others += [one.shape for at, one in enumerate(node.constants, len(node.inputs)) if at != table]
    fits = all(rows_are_whole(shape, node.output_shape, len(given)) for shape in others)
    if not fits or node.input_dtypes[indices] not in INDICES or not 0 < array.size < 1 << 31:
        return None
    formula = element_formula(_of_rows(node, gathers[0], table, indices))
    return None if formula is None else GatheredFusion(node, indices, table, formula)


def _operands(node: Fusion) -> tuple[TensorSpec, ...]:
    constants = [(array.shape, str(array.dtype)) for array in node.constants]
    arrays = [*zip(node.input_shapes, node.input_dtypes, strict=True), *constants]
    return tuple(TensorSpec(f"x{at}", shape, dtype) for at, (shape, dtype) in enumerate(arrays))


def _of_rows(node: Fusion, gather: int, table: int, indices: int) -> Fusion:
    """What is computed of the rows, as a fusion whose first input they are."""
    inputs, count = len(node.inputs), len(node.inputs) + len(node.constants)
    kept = [at for at in range(count) if at not in (table, indices)]
    rows = node.constants[table - inputs]
    places = {at: number for number, at in enumerate(kept, 1)} | {count + gather: 0}
    first = len(kept) + 1
    left = [at for at in range(len(node.primitives)) if at != gather]
    places |= {count + at: first + number for number, at in enumerate(left)}
    return replace(
        node,
        primitives=moved([node.primitives[at] for at in left], places),
        inputs=("rows", *(node.inputs[at] for at in kept if at < inputs)),
        input_shapes=(node.output_shape, *(node.input_shapes[at] for at in kept if at < inputs)),
        input_dtypes=(str(rows.dtype), *(node.input_dtypes[at] for at in kept if at < inputs)),
        constants=tuple(node.constants[at - inputs] for at in kept if at >= inputs),
    )


def moved(primitives: Sequence[Primitive], places: Mapping[int, int]) -> tuple[Primitive, ...]:
    """Primitives whose arguments are in other places."""
    return tuple(
        replace(one, arguments=tuple(places[at] for at in one.arguments)) for one in primitives
    )
