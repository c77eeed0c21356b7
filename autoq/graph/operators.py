"""PrimFuncs for operators: what no template computes, written in TE and scheduled by TVM.

All elementwise steps of an operator become one expression, so that most operators are one loop
nest; only reductions (softmax, means, products of activations) get loops of their own. On CUDA
element-wise operators, those that reduce rows and transpositions have kernels of their own instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import tvm
from tvm import te

from autoq.graph.cuda_elementwise import element_program
from autoq.graph.cuda_rows import row_operator
from autoq.graph.ir import Operator
from autoq.graph.operator_te import STEPS
from autoq.graph.te_value import Value, output
from autoq.templates.cuda.device.thread_kernel import Operand
from autoq.templates.cuda.movement.elementwise import elementwise_kernel
from autoq.templates.cuda.movement.permute import permute_kernel, permutes
from autoq.templates.cuda.movement.rows import row_kernel
from autoq.templates.target import Target

if TYPE_CHECKING:
    from tvm.s_tir import Schedule
    from tvm.tirx import PrimFunc

VECTOR_LANES = (16, 8, 4)
SMALL = 4096
"""Elements below which a CPU loop nest is not worth a second thread."""


def operator_prim_func(node: Operator, target: Target) -> PrimFunc:
    """The scheduled PrimFunc of an operator; equal for nodes of equal `key`.

    Parameters: the inputs in order, the constants, then the output, in the node's shapes.
    """
    from tvm.s_tir import Schedule

    written = _written(node) if target.kind == "cuda" else None
    if written is not None:
        return written.kernel(target)
    arguments = [
        te.placeholder(shape, dtype, name=f"x{i}")
        for i, (shape, dtype) in enumerate(zip(node.input_shapes, node.input_dtypes, strict=True))
    ]
    arguments += [
        te.placeholder(array.shape, str(array.dtype), name=f"c{i}")
        for i, array in enumerate(node.constants)
    ]
    values = [Value.of(tensor) for tensor in arguments]
    for step in node.steps:
        values.append(STEPS[step.op](step, *(values[index] for index in step.arguments)))
    result = output(values[-1], node.output_shape, node.steps[-1].dtype)
    function = te.create_prim_func([*arguments, result]).with_attr("global_symbol", "main")
    if target.kind == "cpu":
        schedule = Schedule(function)
        _schedule_cpu(schedule)
        function = schedule.mod["main"]
    else:
        function = _schedule_cuda(function, target)
    return function.with_attr("s_tir", True)


def kernel_family(node: Operator, target: Target) -> str:
    """Which kernels compute an operator: elementwise, rows or transposition, else tvm."""
    written = _written(node) if target.kind == "cuda" else None
    return "tvm" if written is None else written.family


@dataclass(frozen=True)
class _Written:
    """An operator that has a kernel in CUDA of its own."""

    family: str
    kernel: Callable[[Target], PrimFunc]


def _written(node: Operator) -> _Written | None:
    program = element_program(node)
    if program is not None:
        constants = [(array.shape, str(array.dtype)) for array in node.constants]
        arrays = [*zip(node.input_shapes, node.input_dtypes, strict=True), *constants]
        operands = [Operand(f"x{i}", shape, dtype) for i, (shape, dtype) in enumerate(arrays)]
        kernel = partial(elementwise_kernel, node.output_shape, operands, program)
        return _Written("elementwise", kernel)
    rows = row_operator(node)
    if rows is not None:
        return _Written("rows", partial(row_kernel, rows.arrays, rows.program))
    if len(node.steps) == 1 and node.steps[0].op == "Transpose" and not node.constants:
        array = node.input_shapes[0], node.steps[0]["perm"], node.input_dtypes[0]
        if permutes(*array):
            return _Written("transposition", partial(permute_kernel, *array))
    return None


def _schedule_cpu(schedule: Schedule) -> None:
    """Outer loops parallel, the last one in vectors where its extent allows it."""
    for block in schedule.get_child_blocks(schedule.get_sblock("root")):
        loops = schedule.get_loops(block)
        spatial = [loop for loop, kind in _kinds(schedule, block, loops) if kind == "spatial"]
        if not spatial:
            continue
        extents = [int(schedule.get(loop).extent) for loop in spatial]
        reduces = len(spatial) != len(loops)
        lanes = next((n for n in VECTOR_LANES if extents[-1] % n == 0), None)
        if lanes and not reduces:
            _, inner = schedule.split(spatial[-1], [None, lanes])
            schedule.vectorize(inner)
            spatial = spatial[:-1] or schedule.get_loops(block)[:1]
        if _product(extents) >= SMALL:
            outer = schedule.fuse(*spatial) if len(spatial) > 1 else spatial[0]
            schedule.parallel(outer)


def _kinds(schedule: Schedule, block: Any, loops: list[Any]) -> list[tuple[Any, str]]:
    """Loops with "spatial" or "reduce"; TE writes the spatial ones first."""
    spatial = [str(v.iter_type) == "0" for v in schedule.get(block).iter_vars]
    return [
        (loop, "spatial" if kind else "reduce") for loop, kind in zip(loops, spatial, strict=False)
    ]


def _product(extents: list[int]) -> int:
    total = 1
    for extent in extents:
        total *= extent
    return total


def _schedule_cuda(function: PrimFunc, target: Target) -> PrimFunc:
    """dlight's default rules."""
    from tvm.s_tir import dlight

    device = tvm.target.Target({"kind": "cuda", "arch": target.arch})
    module = tvm.IRModule({"main": function})
    with device:
        module = dlight.ApplyDefaultSchedule(
            dlight.gpu.Matmul(),
            dlight.gpu.GEMV(),
            dlight.gpu.Reduction(),
            dlight.gpu.GeneralReduction(),
            dlight.gpu.Fallback(),
        )(module)
    return module["main"]
