"""The mixed-input product on mma.sync: rows of weights times rows of x, D [weight rows, x rows].

The weight is the instruction's A, so that 8 rows of x make a tile. From sm_80 tiles arrive by
cp.async in a ring of stages; sm_75 has no such copies, and each starts at a multiple of 4 bytes, so
else they wait in registers while the other of two stages is multiplied.
"""

import math

from tvm.script import tirx as T
from tvm.tirx import PrimFunc

from autoq.templates.arrays.storage import moved_as
from autoq.templates.cuda.device.launch.dependent_launch import (
    overlapping,
    start_successor,
    wait_for_predecessors,
)
from autoq.templates.cuda.device.launch.place import WarpThread
from autoq.templates.cuda.device.launch.step_loops import (
    multiply_from_registers,
    multiply_from_ring,
)
from autoq.templates.cuda.mixed.mma_sync.copies import Sources, fetch, keep
from autoq.templates.cuda.mixed.mma_sync.multiply import (
    Registers,
    load_taken,
    multiply_stage,
)
from autoq.templates.cuda.mixed.mma_sync.place import SyncPlace, place_of
from autoq.templates.cuda.mixed.mma_sync.plan import MixedSyncPlan
from autoq.templates.cuda.mixed.mma_sync.store import SyncResults, copy_tile
from autoq.templates.cuda.mixed.result_inputs import result_inputs
from autoq.templates.cuda.mixed.row_values import row_values
from autoq.templates.cuda.mixed.widening import Widening

_EVICT_FIRST = "createpolicy.fractional.L2::evict_first.b64"


def build_kernel(plan: MixedSyncPlan) -> PrimFunc:
    """The kernel; parameters x, what else it reads of inputs and `pack.packed`, and y or sums.

    With the reduction split it writes sums float32 `[split_k, *y_shape]`, and reads neither scales
    nor bias nor residual.
    """
    work, config = plan.workload, plan.config
    y_shape = work.y_shape if plan.finishes else (config.split_k, *work.y_shape)
    y_values = math.prod(y_shape)
    x_rows, x_dtype = work.batch * work.m, moved_as(work.in_dtype)
    held = 4 * (plan.x_rounds + plan.weight_rounds + plan.group_rounds)

    @T.jit
    def main(
        x_ptr: T.handle,
        x_scale_ptr: T.Optional(T.handle),
        residual_ptr: T.Optional(T.handle),
        weight_ptr: T.handle,
        groups_ptr: T.Optional(T.handle),
        taken_ptr: T.Optional(T.handle),
        scale_ptr: T.Optional(T.handle),
        bias_ptr: T.Optional(T.handle),
        y_ptr: T.handle,
    ):
        x_whole = T.match_buffer(x_ptr, work.inputs[0].shape, work.in_dtype, align=16)
        weight = T.match_buffer(weight_ptr, (plan.packed_bytes,), "uint8", align=16)
        if groups_ptr is not None:
            groups = T.match_buffer(
                groups_ptr, (plan.group_columns * plan.weight_rows,), "uint32", align=16
            )
        else:
            groups = T.meta_var(weight)
        taken = T.meta_var(row_values(taken_ptr, "taken", plan.weight_rows, "uint32", weight))
        scale = T.meta_var(row_values(scale_ptr, "scale", plan.weight_rows, "float32", weight))
        bias = T.meta_var(row_values(bias_ptr, "bias", plan.weight_rows, "float32", weight))
        y_whole = T.match_buffer(y_ptr, y_shape, plan.result.name, align=16)
        inputs = T.meta_var(
            result_inputs(work, work.y_shape, plan.finishing.value, x_scale_ptr, residual_ptr)
        )
        x = T.decl_buffer((x_rows, work.k), x_dtype, data=x_whole.data)
        y = T.decl_buffer((y_values,), moved_as(plan.result.name), data=y_whole.data)

        T.device_entry()
        T.attr({"tirx.launch_bounds_min_blocks_per_sm": config.blocks_per_sm})
        block = T.cta_id([plan.tiles * config.split_k])
        index = T.thread_id([config.threads])
        smem = T.alloc_buffer((plan.smem_bytes,), "uint8", scope="shared.dyn", align=128)
        words = T.decl_buffer((plan.smem_bytes // 4,), "uint32", data=smem.data, scope="shared.dyn")
        where = T.meta_var(place_of(plan, block))
        m: T.int32 = where[0]
        n: T.int32 = where[1]
        product: T.int32 = where[2]
        split: T.int32 = where[3]
        lane: T.int32 = index % 32
        warp_column: T.int32 = index // 32 % config.warps_m
        warp_row: T.int32 = index // 32 // config.warps_m
        sums = T.alloc_local((config.accumulators,), "float32")
        x_fragments = T.alloc_local((4 * config.column_tiles,), "uint32")
        raw = T.alloc_local((8 * config.row_tiles,), "uint32")
        weights = T.alloc_local((4 * config.row_tiles,), "uint32")
        state = T.alloc_local((4 * config.row_tiles,), "uint32")
        waiting = T.alloc_local((1 if plan.asynchronous else held,), "uint32")
        policy = T.alloc_local((1,), "uint64")
        thread = T.meta_var(WarpThread(index, lane, warp_row, warp_column))
        place = T.meta_var(SyncPlace(plan, m, n, product, split))
        sources = T.meta_var(Sources(x, weight, groups, place, policy, waiting))
        registers = T.meta_var(Registers(sums, x_fragments, raw, weights, state))
        results = T.meta_var(SyncResults(plan, sums, inputs, place, thread))

        @T.inline
        def fetch_step(step, stage):
            fetch(plan, smem, sources, first + step, stage, thread)

        @T.inline
        def fetch_next(step):
            fetch_step(step, 0)

        @T.inline
        def keep_stage(stage):
            keep(plan, smem, sources, stage, thread)

        @T.inline
        def multiply(stage, step):
            multiply_stage(plan, smem, words, registers, stage, thread)

        if plan.hinted:
            T.ptx[_EVICT_FIRST](policy[0])
        if config.widening is Widening.TABLE:
            for i in T.unroll(-(-256 // config.threads)):
                entry = T.meta_var(i * config.threads + index)
                if entry < 256:
                    T.cuda.func_call(
                        plan.fill.name, smem.ptr_to([plan.table_offset]), entry,
                        source_code=plan.fill.source,
                    )  # fmt: skip
        for i in T.unroll(config.accumulators):
            sums[i] = T.float32(0)
        load_taken(plan, registers, taken, place, thread)
        first: T.int32 = split * plan.split_steps
        count: T.int32 = T.min(plan.split_steps, plan.k_steps - first)
        if plan.overlaps:
            wait_for_predecessors()
            start_successor()
        if plan.asynchronous:
            multiply_from_ring(config.stages, count, fetch_step, multiply)
        else:
            multiply_from_registers(count, fetch_next, keep_stage, multiply)
        if plan.finishes:
            results.load_rows(scale, bias)
        T.cuda.cta_sync()
        results.stage(smem)
        T.cuda.cta_sync()
        copy_tile(plan, smem, y, place, thread)

    present = {
        "groups_ptr": bool(work.group),
        "taken_ptr": plan.row_shifted,
        "x_scale_ptr": plan.finishes and work.x_scale,
        "residual_ptr": plan.finishes and work.residual,
        "scale_ptr": plan.finishes and work.scaled,
        "bias_ptr": plan.finishes and work.bias,
    }
    absent = {name: None for name, there in present.items() if not there}
    kernel = main.specialize(**absent)
    return overlapping(kernel) if plan.overlaps else kernel
