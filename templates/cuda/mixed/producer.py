"""The producer thread of the mixed-input product: rows of x and tiles of weights into stages."""

from tvm.script import tirx as T

from autoq.templates.cuda.device.memory.tma import LOAD_BULK, Delivery, load_tiled, tma_load


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
