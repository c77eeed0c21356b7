"""The producer thread of the mixed-input product: rows of x and tiles of weights into stages."""

from tvm.script import tirx as T

from autoq.templates.cuda.device.memory.tma import LOAD_BULK, Delivery, tma_load


@T.inline
def produce(plan, smem, cursor, x_map, weight, place, piece, start):
    """Producer thread: fill the stages of a piece of an output tile; start: of its team."""
    first_stage = T.meta_var(2 * plan.config.k_groups * piece.first)
    for turn in T.serial(2 * plan.config.k_groups * piece.portions):
        stage = T.meta_var(first_stage + turn)
        start.pass_on(piece, turn)
        cursor.acquire(plan.transaction)
        base = T.meta_var(cursor.stage * plan.stage_bytes)
        full = T.meta_var(cursor.full)
        for step in T.unroll(plan.config.steps):
            first = T.meta_var(plan.first_row(place.rank))
            at = T.meta_var(stage * plan.config.steps + step)
            coordinates = T.meta_var(
                plan.rows.coordinates(at, place.m * plan.config.block_m + first, place, plan.step_k)
            )
            T.evaluate(
                tma_load(
                    plan.rows.instruction, Delivery(plan.config.cluster),
                    smem.ptr_to([base + step * plan.config.x_bytes + first * 128]),
                    T.address_of(x_map), *coordinates, full, *plan.rows.offsets(at),
                )
            )  # fmt: skip
        for block in T.unroll(plan.config.blocks):
            T.evaluate(
                tma_load(
                    LOAD_BULK, Delivery(1, plan.config.weights_once),
                    smem.ptr_to([base + plan.weight_offset + block * plan.block_bytes]),
                    weight.ptr_to([plan.weight_at(plan.weight_tile(place), block, stage)]),
                    T.uint32(plan.block_bytes), full,
                )
            )  # fmt: skip
        cursor.advance()
