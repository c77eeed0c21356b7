"""The kernel of a batched product with x from registers: a block has neighbouring rows of y."""

from __future__ import annotations

from collections.abc import Sequence

from tvm.script import tirx as T
from tvm.tirx import PrimFunc

from autoq.templates.arrays.element import element
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.batched.rows.plan import BatchedRowsPlan
from autoq.templates.cuda.batched.rows.source import ROWS_PRODUCT
from autoq.templates.cuda.batched.store_source import byte_values
from autoq.templates.cuda.device.launch.dependent_launch import overlapping
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.memory.pipeline_source import PIPELINE
from autoq.templates.epilogue.cuda.values.numbers import NumberNamespace
from autoq.templates.operators.batched_gemm import BatchedGemm


def build_kernel(plan: BatchedRowsPlan, packed: Sequence[TensorSpec]) -> PrimFunc:
    """The kernel of a plan; parameters x, other, `packed`, y."""
    work, config = plan.workload, plan.config
    x, other = work.inputs
    (y,) = work.outputs
    zeros, scales, numbers = packed
    product = _functions(plan).function("product")

    @T.jit
    def main(
        x_ptr: T.handle,
        other_ptr: T.handle,
        zero_points_ptr: T.handle,
        scale_ptr: T.handle,
        scalars_ptr: T.handle,
        y_ptr: T.handle,
    ):
        x_array = T.match_buffer(x_ptr, x.shape, x.dtype, align=16)
        other_array = T.match_buffer(other_ptr, other.shape, other.dtype, align=16)
        zero_points = T.match_buffer(zero_points_ptr, zeros.shape, "int32", align=16)
        scale = T.match_buffer(scale_ptr, scales.shape, "float32", align=16)
        scalars = T.match_buffer(scalars_ptr, numbers.shape, "float32", align=16)
        y_array = T.match_buffer(y_ptr, y.shape, y.dtype, align=16)

        T.device_entry()
        T.attr({"tirx.launch_bounds_min_blocks_per_sm": config.blocks_per_sm})
        block = T.cta_id([plan.blocks])
        thread = T.thread_id([config.threads])
        smem = T.alloc_buffer((plan.smem_bytes,), "uint8", scope="shared.dyn", align=128)
        T.evaluate(
            T.cuda.func_call(
                product.name, x_array.data, other_array.data, zero_points.data, scale.data,
                scalars.data, y_array.data, smem.data, block, thread, source_code=product.source,
            )
        )  # fmt: skip

    return overlapping(main.specialize())


def _places(work: BatchedGemm, order: str) -> tuple[int, int, int]:
    """Bytes between batches, heads and rows of an array of bytes in an order."""
    places = [work.row_places(order, pair) for pair in (0, 1, work.heads)]
    return places[2][0], places[1][0] if work.heads > 1 else 0, places[0][1]


def _functions(plan: BatchedRowsPlan) -> DeviceNamespace:
    work, config = plan.workload, plan.config
    out = element(work.epilogue.out_dtype)
    least, most = out.range
    source = (
        PIPELINE
        + plan.atom(work.n).assembly("multiply")
        + plan.atom(8).assembly("add_up")
        + byte_values(out.ptx)
        + ROWS_PRODUCT.replace("PACKED", out.ptx)
    )
    other_batch, other_head, other_pitch = _places(work, work.other_order)
    y_batch, y_head, y_pitch = _places(work, work.y_order)
    return NumberNamespace(
        "batched_rows",
        source,
        {"X": work.in_dtype, "OTHER": work.other_dtype, "OUT": work.epilogue.out_dtype},
        {
            "HEADS": work.heads, "M": work.m, "N": work.n, "K": work.k,
            "ROW_GROUPS": config.row_groups, "TILES_M": plan.tiles_m, "TILES": plan.tiles,
            "SLOTS": plan.slots, "TILES_K": plan.tiles_k,
            "OTHER_GAP": plan.other_gap, "TURNED_GROUP": plan.turned_group,
            "TURNED_AT": plan.turned_at, "ONES_AT": plan.ones_at, "SUMS_AT": plan.sums_at,
            "BARRIER_AT": plan.barrier_at, "X_AT": plan.x_at, "STORE": plan.store_bytes,
            "OTHER_BATCH": other_batch, "OTHER_HEAD": other_head, "OTHER_PITCH": other_pitch,
            "Y_BATCH": y_batch, "Y_HEAD": y_head, "Y_PITCH": y_pitch,
            "SMALL_SUMS": plan.small_sums, "LEAST": least, "MOST": most,
        },
    )  # fmt: skip
