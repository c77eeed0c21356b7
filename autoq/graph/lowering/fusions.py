"""PrimFuncs for fusions, which no template computes.

Element-wise fusions, those that reduce rows and transpositions have kernels of their own;
everything else is written in TE and scheduled by TVM.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from autoq.graph.fallback.scheduled import scheduled_prim_func
from autoq.graph.ir import Fusion, Siblings
from autoq.graph.lowering.cpu.rows import cpu_row_formula
from autoq.graph.lowering.cpu.transposed import transposed_first
from autoq.graph.lowering.cuda.elementwise import element_formula
from autoq.graph.lowering.cuda.gathered import gathered_fusion
from autoq.graph.lowering.cuda.rows import RowFusion, row_fusion
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cpu.movement.rows import row_kernel as cpu_row_kernel
from autoq.templates.cpu.permute import permute_kernel as cpu_permute_kernel
from autoq.templates.cpu.permute import permutes as cpu_permutes
from autoq.templates.cuda.device.permute import permute_kernel, permutes
from autoq.templates.cuda.movement.elementwise import Plan, elementwise_kernel
from autoq.templates.cuda.movement.picking_rows import picking_fits, picking_rows
from autoq.templates.cuda.movement.quantising_rows import quantising_fits, quantising_rows
from autoq.templates.cuda.movement.rows import row_kernel
from autoq.templates.program import Program
from autoq.templates.target import Target

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc


def fusion_prim_func(node: Fusion | Siblings, target: Target) -> PrimFunc:
    """The scheduled PrimFunc of a fusion; equal for nodes of equal `key`.

    Parameters: the inputs in order, the constants, then the outputs, in the node's shapes. Raises
    ValueError for siblings without an element-wise kernel.
    """
    if isinstance(node, Siblings):
        kernel = _elementwise(node.parts[0])
        if kernel is None or target.kind != "cuda":
            raise ValueError(f"{node.kind} has no element-wise kernel for {target.kind}")
        return kernel(target, copies=len(node.parts))
    written = _written(node, target)
    if written is not None:
        return written.kernel(target)
    return scheduled_prim_func(node, target)


def fusion_program(node: Fusion, target: Target) -> tuple[Program, tuple[TensorSpec, ...]]:
    """The program of a fusion with several outputs, and the arrays that it takes.

    These are the inputs in order, the constants, then the outputs. Raises ValueError for fusions
    that neither `quantises` nor `picks` says anything of.
    """
    rows = row_fusion(node)
    picked = len(node.picked.places) if node.picked else 0
    if rows is not None and picks(node, picked, target):
        return picking_rows(rows.arrays, rows.formula, picked, target)
    if rows is None or not quantises(node, target):
        raise ValueError(f"{node.kind} has one output")
    return quantising_rows(rows.arrays, rows.formula, target)


def quantises(node: Fusion, target: Target) -> bool:
    """Whether a kernel of the fusion can quantise its result by its range."""
    rows = _rows(node, target)
    return rows is not None and quantising_fits(rows.arrays, rows.formula, target)


def picks(node: Fusion, count: int, target: Target) -> bool:
    """Whether a kernel of the fusion can write `count` places of its result's last axis twice."""
    rows = _rows(node, target)
    alone = not node.quantised and rows is not None and rows.arrays.inner == 1
    return alone and picking_fits(rows.arrays, rows.formula, count, target)


def _rows(node: Fusion, target: Target) -> RowFusion | None:
    """The fusion as a kernel over rows of a GPU."""
    if target.kind != "cuda" or kernel_family(node, target) != "rows":
        return None
    return row_fusion(node)


def elementwise_prim_func(node: Fusion, target: Target, plan: Plan) -> PrimFunc:
    """The kernel of an element-wise fusion under another plan; ValueError for other fusions."""
    kernel = _elementwise(node)
    if kernel is None or target.kind != "cuda":
        raise ValueError(f"{node.kind} has no element-wise kernel for {target.kind}")
    return kernel(target, plan)


def kernel_family(node: Fusion | Siblings, target: Target) -> str:
    """Which kernels compute a fusion: elementwise, rows or transposition, else tvm."""
    written = _written(node.parts[0], target)
    return "tvm" if written is None else written.family


@dataclass(frozen=True)
class _Written:
    """A fusion that has a kernel of its own."""

    family: str
    kernel: Callable[[Target], PrimFunc]


def _written(node: Fusion, target: Target) -> _Written | None:
    return _written_for_cpu(node) if target.kind == "cpu" else _written_for_cuda(node)


def _written_for_cpu(node: Fusion) -> _Written | None:
    found = transposed_first(node)
    turned, rest = found or (None, node)
    if turned is not None:
        array = turned.shape, turned.perm, node.input_dtypes[turned.operand]
        if not cpu_permutes(*array):
            return None
        if not rest.primitives:
            return _Written("transposition", partial(cpu_permute_kernel, *array))
    formula = cpu_row_formula(rest)
    if formula is None:
        return None
    reduces = any(value.reduces for value in formula.values)
    kernel = partial(cpu_row_kernel, formula, turned)
    return _Written("rows" if reduces else "elementwise", kernel)


def _written_for_cuda(node: Fusion) -> _Written | None:
    kernel = _elementwise(node)
    if kernel is not None:
        return _Written("elementwise", kernel)
    gathered = gathered_fusion(node)
    if gathered is not None:
        return _Written("gathered", gathered.kernel)
    rows = row_fusion(node)
    if rows is not None:
        return _Written("rows", partial(row_kernel, rows.arrays, rows.formula))
    if len(node.primitives) == 1 and node.primitives[0].op == "Transpose" and not node.constants:
        array = node.input_shapes[0], node.primitives[0]["perm"], node.input_dtypes[0]
        if permutes(*array):
            return _Written("transposition", partial(permute_kernel, *array))
    return None


def _elementwise(node: Fusion) -> Callable[..., PrimFunc] | None:
    """The kernel of an element-wise fusion on CUDA, for a target and a plan."""
    formula = element_formula(node)
    if formula is None:
        return None
    constants = [(array.shape, str(array.dtype)) for array in node.constants]
    arrays = [*zip(node.input_shapes, node.input_dtypes, strict=True), *constants]
    operands = [TensorSpec(f"x{i}", shape, dtype) for i, (shape, dtype) in enumerate(arrays)]
    return partial(elementwise_kernel, node.output_shape, operands, formula, given=len(node.inputs))
