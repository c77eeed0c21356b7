"""Fusions as TE expressions with TVM's schedules, for what has no kernel of its own.

All elementwise primitives of a fusion become one expression, so that most fusions are one loop
nest; only reductions (softmax, means, products of activations) get loops of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tvm
from tvm import te

from autoq.graph.fallback.primitive_te import PRIMITIVES
from autoq.graph.fallback.te_reductions import SUM
from autoq.graph.fallback.te_value import Value, output
from autoq.graph.ir import Fusion
from autoq.templates.target import Target

if TYPE_CHECKING:
    from tvm.s_tir import Schedule
    from tvm.tirx import PrimFunc

VECTOR_LANES = (16, 8, 4)
SMALL = 4096
"""Elements below which a CPU loop nest is not worth a second thread."""
LONGEST_SUM = 4096
"""Numbers that a CPU adds up one behind the other: a million lose three digits of float32."""
MOST_PARTS = 1 << 20
"""Sums of parts that a loop nest has memory for."""


def scheduled_prim_func(node: Fusion, target: Target) -> PrimFunc:
    """The PrimFunc of a fusion: loop nests on the CPU, dlight's default rules on CUDA.

    Parameters: the inputs in order, the constants, then the output, in the node's shapes.
    """
    from tvm.s_tir import Schedule

    arguments = [
        te.placeholder(shape, dtype, name=f"x{i}")
        for i, (shape, dtype) in enumerate(zip(node.input_shapes, node.input_dtypes, strict=True))
    ]
    arguments += [
        te.placeholder(array.shape, str(array.dtype), name=f"c{i}")
        for i, array in enumerate(node.constants)
    ]
    values = [Value.of(tensor) for tensor in arguments]
    for primitive in node.primitives:
        values.append(
            PRIMITIVES[primitive.op](primitive, *(values[index] for index in primitive.arguments))
        )
    result = output(values[-1], node.output_shape, node.primitives[-1].dtype)
    function = te.create_prim_func([*arguments, result]).with_attr("global_symbol", "main")
    if target.kind == "cpu":
        schedule = Schedule(function)
        _schedule_cpu(schedule)
        function = schedule.mod["main"]
    else:
        function = _schedule_cuda(function, target)
    return function.with_attr("s_tir", True)


def _schedule_cpu(schedule: Schedule) -> None:
    """Outer loops parallel, the last one in vectors where its extent allows it; long sums cut."""
    for block in schedule.get_child_blocks(schedule.get_sblock("root")):
        if SUM in schedule.get(block).name_hint:
            _cut_sum(schedule, block)
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


def _cut_sum(schedule: Schedule, block: Any) -> None:
    """Make a long sum one of sums of equal parts, where it has such parts."""
    kinds = _kinds(schedule, block, schedule.get_loops(block))
    loops = [loop for loop, kind in kinds if kind == "reduce"]
    count, sums = (
        _product([int(schedule.get(loop).extent) for loop, kind in kinds if kind == wanted])
        for wanted in ("reduce", "spatial")
    )
    part = next((n for n in range(LONGEST_SUM, 1, -1) if count % n == 0), 1)
    if count <= LONGEST_SUM or part == 1 or count // part * sums > MOST_PARTS:
        return
    whole = schedule.fuse(*loops) if len(loops) > 1 else loops[0]
    parts, _ = schedule.split(whole, [None, part])
    schedule.rfactor(parts, 0)


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
