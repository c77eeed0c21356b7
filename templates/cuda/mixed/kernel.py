"""The mixed-input product on wgmma: weights become A in registers while the tensor cores work.

A warp brings rows of x and tiles of weights into a ring of stages. Each consumer warpgroup widens
the weights of the next stage while its products of this one run, so that registers of A take turns;
D [weight rows, rows of x] has x as its B, in shared memory as it lies in memory. The scheme is that
of CUTLASS's mixed-input kernels with its constants swapped.
"""

from tvm.script import tirx as T
from tvm.tirx import PrimFunc

from autoq.templates.cuda.device.launch.dependent_launch import (
    overlapping,
    start_successor,
    wait_for_predecessors,
)
from autoq.templates.cuda.device.memory.cluster import arrive_at_cluster, wait_for_cluster
from autoq.templates.cuda.device.memory.ring import Ring, RingPosition, fence_barriers
from autoq.templates.cuda.device.memory.tma import (
    ENCODE_TILED,
    LOAD_BULK,
    Delivery,
    load_tiled,
    tma_load,
)
from autoq.templates.cuda.device.mma.descriptors import descriptor_step, encode_descriptor
from autoq.templates.cuda.mixed.plan import MixedPlan
from autoq.templates.cuda.mixed.store import finish_pair, store_tile

_START_BARRIER = 1


@T.inline
def produce(plan, smem, ring, at, x_map, weight, m, n, rank):
    """Producer thread: fill the stages of one output tile."""
    for stage in T.serial(plan.k_stages):
        ring.acquire(at, plan.transaction)
        base = T.meta_var(at.stage * plan.stage_bytes)
        full = T.meta_var(ring.full(at.stage))
        for step in T.unroll(plan.config.steps):
            first = T.meta_var(plan.first_row(rank))
            T.evaluate(
                tma_load(
                    load_tiled(2), Delivery(plan.config.cluster),
                    smem.ptr_to([base + step * plan.config.x_bytes + first * 128]),
                    T.address_of(x_map), (stage * plan.config.steps + step) * 64,
                    m * plan.config.block_m + first, full,
                )
            )  # fmt: skip
        for block in T.unroll(plan.config.blocks):
            T.ptx[LOAD_BULK](
                smem.ptr_to([base + plan.weight_offset + block * plan.block_bytes]),
                weight.ptr_to([plan.weight_at(n, block, stage)]),
                T.uint32(plan.block_bytes), full,
            )  # fmt: skip
        at.advance()


@T.inline
def convert(plan, a, smem, rows, parity, stage, consumer, thread):
    """Consumer: the weights of a stage into the registers of A of its parity."""
    if plan.converts:
        for block in T.unroll(plan.config.row_blocks):
            for step in T.unroll(plan.config.steps):
                T.cuda.func_call(
                    plan.convert.name,
                    a.ptr_to([plan.a_at(parity, block, 4 * step)]),
                    smem.ptr_to([
                        stage * plan.stage_bytes + plan.weight_offset
                        + (consumer * plan.config.row_blocks + block) * plan.block_bytes
                        + step * plan.tile_bytes
                    ]),
                    rows.ptr_to([4 * block]),
                    thread,
                    source_code=plan.convert.source,
                )  # fmt: skip


@T.inline
def multiply(plan, accumulator, a, first_a, first_x, parity, stage, started):
    """Consumer: start the products of a stage."""
    x: T.uint64 = first_x + descriptor_step(stage * plan.stage_bytes)
    own: T.uint64 = first_a + descriptor_step(stage * plan.stage_bytes)
    T.ptx.wgmma.fence.sync.aligned()
    for i in T.unroll(plan.instructions):
        for block in T.unroll(plan.config.row_blocks):
            registers = T.meta_var([a[plan.a_at(parity, block, i) + r] for r in range(4)])
            tile = T.meta_var(own + descriptor_step(block * plan.block_bytes + plan.a_step(i)))
            T.evaluate(
                plan.atom.call(
                    accumulator, block * plan.atom.d_registers,
                    registers if plan.converts else tile,
                    x + descriptor_step(plan.x_step(i)),
                    (i > 0) | started,
                )
            )  # fmt: skip
    T.ptx.wgmma.commit_group.sync.aligned()


@T.inline
def leave(plan, ring, stage, lane):
    """Consumer warp: a stage may be filled again, by every block that loads into it."""
    if lane == 0:
        if plan.config.cluster == 1:
            ring.release(stage)
        for rank in T.unroll(plan.config.cluster if plan.config.cluster > 1 else 0):
            ring.release_in(stage, rank)


@T.inline
def main_loop(plan, accumulator, a, rows, smem, first_a, first_x, ring, at, previous, consumer,
              thread, lane):  # fmt: skip
    """Consumer: all products of an output tile."""
    ring.wait(at)
    convert(plan, a, smem, rows, 0, at.stage, consumer, thread)
    for pair in T.serial(plan.k_stages // 2):
        for parity in T.unroll(2):
            multiply(
                plan, accumulator, a, first_a, first_x, parity, at.stage,
                (pair > 0) | (parity > 0),
            )  # fmt: skip
            T.ptx.wgmma.wait_group.sync.aligned(1)
            if (pair > 0) | (parity > 0):
                leave(plan, ring, previous[0], lane)
            previous[0] = at.stage
            at.advance()
            if (pair < plan.k_stages // 2 - 1) | (parity < 1):
                ring.wait(at)
                convert(plan, a, smem, rows, 1 - parity, at.stage, consumer, thread)
    T.ptx.wgmma.wait_group.sync.aligned(0)
    leave(plan, ring, previous[0], lane)


@T.inline
def load_rows(plan, scales, rows, taken, scale, bias, n, consumer, warp, lane):
    """Consumer: scale, bias and zero points of a thread's weight rows."""
    for block in T.unroll(plan.config.row_blocks):
        for half in T.unroll(2):
            row = T.meta_var(
                (n * plan.config.blocks + consumer * plan.config.row_blocks + block) * 64
                + warp * 16 + lane // 4 + 8 * half
            )  # fmt: skip
            scales[4 * block + half] = scale[row] if plan.workload.quantised else T.float32(1)
            scales[4 * block + 2 + half] = bias[row] if plan.workload.bias else T.float32(0)
            rows[4 * block + half] = taken[row] if plan.rows_shifted else T.uint32(0)
            rows[4 * block + 2 + half] = T.uint32(0)


def build_kernel(plan: MixedPlan) -> PrimFunc:
    """The kernel; parameters x, the arrays of `pack.packed` and y."""
    work, config, registers = plan.workload, plan.config, plan.config.registers
    finish = finish_pair(work)

    @T.jit
    def main(
        x_ptr: T.handle,
        weight_ptr: T.handle,
        taken_ptr: T.Optional(T.handle),
        scale_ptr: T.Optional(T.handle),
        bias_ptr: T.Optional(T.handle),
        y_ptr: T.handle,
    ):
        x = T.match_buffer(x_ptr, (work.m, work.k), work.in_dtype, align=16)
        weight = T.match_buffer(weight_ptr, (plan.weight_bytes,), "uint8", align=16)
        if taken_ptr is not None:
            taken = T.match_buffer(taken_ptr, (plan.padded_n,), "uint32", align=16)
        else:
            taken = T.meta_var(weight)
        if scale_ptr is not None:
            scale = T.match_buffer(scale_ptr, (plan.padded_n,), "float32", align=16)
        else:
            scale = T.meta_var(weight)
        if bias_ptr is not None:
            bias = T.match_buffer(bias_ptr, (plan.padded_n,), "float32", align=16)
        else:
            bias = T.meta_var(weight)
        y = T.match_buffer(y_ptr, work.y_shape, work.out_dtype, align=16)
        x_map: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.call_packed(ENCODE_TILED, x_map, work.in_dtype, 2, x.data, *plan.x_map())
        y_map: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.call_packed(ENCODE_TILED, y_map, work.out_dtype, 2, y.data, *plan.y_map())

        T.device_entry()
        T.attr({"tirx.launch_bounds_min_blocks_per_sm": 1})
        if config.cluster > 1:
            cta = T.cluster_id([plan.grid])
            rank = T.cta_id_in_cluster([config.cluster])
        else:
            cta = T.cta_id([plan.grid])
            rank = T.meta_var(0)
        warpgroup = T.warpgroup_id([config.consumers + 1])
        warp = T.warp_id_in_wg([4])
        lane = T.lane_id([32])
        smem = T.alloc_buffer((plan.smem_bytes,), "uint8", scope="shared.dyn", align=1024)
        barriers = T.decl_buffer(
            (2 * config.stages,), "uint64", data=smem.data,
            byte_offset=plan.barrier_offset, scope="shared.dyn",
        )  # fmt: skip
        ring = T.meta_var(Ring(barriers, 0, config.stages))

        if (warpgroup == 0) & (warp == 0):  # noqa: SIM102
            if T.cuda.elect_sync() != 0:
                ring.initialise(4 * config.consumers * config.cluster)
                fence_barriers()
        T.cuda.cta_sync()
        if config.cluster > 1:
            arrive_at_cluster()
            wait_for_cluster()

        if warpgroup == 0:
            T.ptx.setmaxnreg.dec.sync.aligned.u32(registers.producer)
            if (warp == 0) & (T.cuda.elect_sync() != 0):
                head = T.meta_var(RingPosition(config.stages))
                head.start(0)
                work_index: T.int32 = cta
                wait_for_predecessors()
                start_successor()
                while work_index < plan.works:
                    m, n = plan.tile(work_index, rank)
                    produce(plan, smem, ring, head, x_map, weight, m, n, rank)
                    work_index = work_index + plan.grid
                if config.cluster > 1:
                    ring.wait_until_left(head)
        else:
            T.ptx.setmaxnreg.inc.sync.aligned.u32(registers.consumer)
            consumer = T.meta_var(warpgroup - 1)
            accumulator = T.alloc_local((config.row_blocks * plan.atom.d_registers,), "float32")
            a = T.alloc_local((2 * config.row_blocks * plan.a_registers,), "uint32")
            rows = T.alloc_local((4 * config.row_blocks,), "uint32")
            scales = T.alloc_local((4 * config.row_blocks,), "float32")
            packed = T.alloc_local((4,), "uint32")
            turn = T.alloc_local((1,), "int32")
            previous = T.alloc_local((1,), "int32")
            turn[0] = 0
            first_x: T.uint64 = T.uint64(0)
            first_a: T.uint64 = T.uint64(0)
            T.evaluate(encode_descriptor(first_x, smem.ptr_to([0]), 128, 1024))
            if not work.quantised:
                T.evaluate(
                    encode_descriptor(
                        first_a,
                        smem.ptr_to([
                            plan.weight_offset + consumer * config.row_blocks * plan.block_bytes
                        ]),
                        128, 1024,
                    )
                )  # fmt: skip
            tail = T.meta_var(RingPosition(config.stages))
            tail.start(0)
            work_index: T.int32 = cta
            wait_for_predecessors()
            while work_index < plan.works:
                m, n = plan.tile(work_index, rank)
                load_rows(plan, scales, rows, taken, scale, bias, n, consumer, warp, lane)
                main_loop(
                    plan, accumulator, a, rows, smem, first_a, first_x, ring, tail, previous,
                    consumer, warp * 32 + lane, lane,
                )  # fmt: skip
                store_tile(
                    plan, finish, accumulator, packed, scales, smem, turn, y_map, m, n, consumer,
                    warp, lane,
                )  # fmt: skip
                work_index = work_index + plan.grid
            if (warp == 0) & (lane == 0):
                T.ptx.cp.async_.bulk.wait_group(0)

    absent = {}
    if not plan.rows_shifted:
        absent["taken_ptr"] = None
    if not work.quantised:
        absent["scale_ptr"] = None
    if not work.bias:
        absent["bias_ptr"] = None
    return overlapping(main.specialize(**absent))
