"""Tensor maps of arrays of results, through which TMA stores slices of them and loads residuals."""

from __future__ import annotations

from tvm.script import tirx as T
from tvm.script.ir_builder import IRBuilder
from tvm.tirx import Var
from tvm.tirx.script.builder import ir as builder

from autoq.templates.cuda.device.memory.tma import ENCODE_TILED
from autoq.templates.cuda.mixed.wgmma.plan import MixedPlan


def result_map(
    plan: MixedPlan, pointer: Var | None, name: str, otherwise: Var | None = None
) -> Var | None:
    """The map of an array like y behind a parameter; `otherwise` for a parameter left out."""
    if pointer is None:
        return otherwise
    shape, dtype = plan.rows.y_shape, plan.workload.out_dtype
    array = IRBuilder.name(name, T.match_buffer(pointer, shape, dtype, align=16))
    space = T.tvm_stack_alloca("tensormap", 1)
    found = IRBuilder.name(f"{name}_map", builder.Bind(space, T.handle("tensormap")))
    arguments = found, dtype, plan.y_rank, array.data, *plan.staging.map()
    builder.evaluate(T.call_packed(ENCODE_TILED, *arguments))
    return found
