"""The kernel of attention of products: a block computes a head of a batch from x on.

Its queries, keys and values are 64 rows by three times the depth of products for each consumer, and
go to shared memory alone. From there on it is the block of `attention/wgmma`.
"""

from __future__ import annotations

from tvm.script import tirx as T
from tvm.tirx import PrimFunc

from autoq.templates.cuda.attention.projected.pack import packed
from autoq.templates.cuda.attention.projected.plan import ProjectedPlan
from autoq.templates.cuda.attention.projected.source import ENTRY, PROJECTION
from autoq.templates.cuda.attention.softmax_source import SOFTMAX
from autoq.templates.cuda.attention.wgmma.block_source import BLOCK
from autoq.templates.cuda.attention.wgmma.kernel import (
    BYTE_PARTS,
    atoms,
    constants_of,
    types_of,
)
from autoq.templates.cuda.device.launch.dependent_launch import overlapping
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.memory.pipeline_source import PIPELINE
from autoq.templates.cuda.device.memory.tma import ENCODE_TILED
from autoq.templates.cuda.device.mma.wgmma import Wgmma
from autoq.templates.epilogue.cuda.values.numbers import NumberNamespace


def build_kernel(plan: ProjectedPlan) -> PrimFunc:
    """The kernel of a plan; parameters x, what `packed` says, y."""
    work, attention = plan.workload, plan.attention
    (x,), (y,) = work.inputs, work.outputs
    weights_spec, table_spec, scalars_spec, zeros_spec = packed(work, plan.config)
    attend = _functions(plan).function("attend")
    threads = attention.config.threads

    @T.jit
    def main(
        x_ptr: T.handle,
        weights_ptr: T.handle,
        table_ptr: T.handle,
        scalars_ptr: T.handle,
        zero_points_ptr: T.handle,
        y_ptr: T.handle,
    ):
        x_array = T.match_buffer(x_ptr, x.shape, x.dtype, align=16)
        weights = T.match_buffer(weights_ptr, weights_spec.shape, weights_spec.dtype, align=16)
        table = T.match_buffer(table_ptr, table_spec.shape, table_spec.dtype, align=16)
        scalars = T.match_buffer(scalars_ptr, scalars_spec.shape, "float32", align=16)
        zero_points = T.match_buffer(zero_points_ptr, zeros_spec.shape, "int32", align=16)
        y_array = T.match_buffer(y_ptr, y.shape, y.dtype, align=16)
        x_map: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.call_packed(ENCODE_TILED, x_map, x.dtype, 4, x_array.data, *plan.map_of_x())
        y_map: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.call_packed(
            ENCODE_TILED, y_map, y.dtype, 4, y_array.data,
            *attention.map_of("y", y.dtype, work.rows, 64),
        )  # fmt: skip

        T.device_entry()
        T.attr({"tirx.launch_bounds_min_blocks_per_sm": 1})
        block = T.cta_id([attention.grid])
        thread = T.thread_id([threads])
        smem = T.alloc_buffer((plan.smem_bytes,), "uint8", scope="shared.dyn", align=1024)
        maps = T.meta_var([T.address_of(one) for one in (x_map, y_map)])
        T.evaluate(
            T.cuda.func_call(
                attend.name, *maps, weights.data, table.data, scalars.data, zero_points.data,
                smem.data, block, thread, source_code=attend.source,
            )
        )  # fmt: skip

    return overlapping(main.specialize())


def _functions(plan: ProjectedPlan) -> DeviceNamespace:
    work, attention = plan.workload, plan.attention
    scores, values = atoms(attention)
    products = Wgmma((64, 3 * work.depth, 32), work.in_dtype, work.weight_dtype, "int32")
    source = PIPELINE + scores.assembly("multiply_keys") + values.assembly("multiply_values")
    source += products.assembly("multiply_x") + BLOCK + SOFTMAX + BYTE_PARTS + PROJECTION + ENTRY
    constants = {
        **constants_of(attention),
        "STEPS": plan.steps, "RING": plan.stages, "RING_AT": plan.ring_at,
        "TABLE_AT": plan.table_at, "TABLE_BYTES": plan.table_bytes,
        "RING_BARRIERS_AT": plan.barriers_at,
    }  # fmt: skip
    return NumberNamespace("projected_attention", source, types_of(attention), constants)
