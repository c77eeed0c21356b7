"""The multiplication of a stage that holds a halo: all filter taps, fragments as scheduled.

Written out turn by turn, because which fragments a turn still holds is known only beforehand. The
fragments of the next turn are read while one multiplies.
"""

from __future__ import annotations

from typing import Any

from tvm.script import tirx as T

from autoq.templates.cuda.device.launch.place import WarpThread
from autoq.templates.cuda.mma_sync.fragments import FragmentLoad, Turn
from autoq.templates.cuda.mma_sync.multiply import Fragments, multiply_registers
from autoq.templates.cuda.mma_sync.plan import LDMATRIX, LDMATRIX_SINGLE, MmaSyncPlan
from autoq.templates.cuda.mma_sync.tiling import fragment_of_weights


def multiply_taps(
    plan: MmaSyncPlan, smem: Any, accumulator: Any, fragments: Fragments, stage: Any,
    thread: WarpThread,
) -> None:  # fmt: skip
    """Emit all k-tiles of all taps of a stage; raises ValueError where there is no halo."""
    box, schedule = plan.tiling.box, plan.tiling.fragments
    if box is None or schedule is None:
        raise ValueError(f"{plan.config} copies the pixels of every tap again")
    base = stage * plan.tiling.stage_bytes
    first_slot = thread.warp_row * box.slots_between(plan.config.warp_fragments)

    def read(index: int, turn: Turn) -> None:
        for load in turn.loads:
            read_pixels(plan, smem, fragments.a, base, first_slot, load, thread.lane)
        read_weights(plan, smem, fragments.b, base, turn, index % 2, thread)

    turns = schedule.turns
    read(0, turns[0])
    for index, turn in enumerate(turns):
        if index + 1 < len(turns):
            read(index + 1, turns[index + 1])
        multiply_turn(plan, accumulator, fragments, turn, index % 2)


def read_pixels(
    plan: MmaSyncPlan, smem: Any, a: Any, base: Any, first_slot: Any, load: FragmentLoad, lane: Any
) -> None:
    """Emit one ldmatrix of pixels."""
    at = base + address_of_load(plan, first_slot, load, lane)
    halves = [a[register] for register in registers_of_load(load)]
    instruction = LDMATRIX if len(load.pairs) == 2 else LDMATRIX_SINGLE
    T.evaluate(T.ptx[instruction](*halves, smem.ptr_to([at])))


def address_of_load(plan: MmaSyncPlan, first_slot: Any, load: FragmentLoad, lane: Any) -> Any:
    """Byte offset in a stage of the unit that a lane names to ldmatrix.

    Lanes 0..7 name the first fragment's pixels, 8..15 the second's, 16..31 the second units of
    both; of a single fragment lanes 8..15 name the second units.
    """
    slots = load.slots
    unit = load.k_tile * 2 + (lane // 16 if len(slots) == 2 else lane // 8 % 2)
    second = lane // 8 % 2 * (slots[-1] - slots[0])
    return plan.pixel_unit_offset(plan.config, first_slot + lane % 8 + slots[0] + second, unit)


def registers_of_load(load: FragmentLoad) -> list[int]:
    """Registers that ldmatrix fills, in its order: first units, then second units."""
    return [2 * pair + k_half for k_half in range(2) for pair in load.pairs]


def read_weights(
    plan: MmaSyncPlan, smem: Any, b: Any, base: Any, turn: Turn, buffer: int, thread: WarpThread
) -> None:  # fmt: skip
    """Emit the loads of a turn's weights into one of two register buffers."""
    config = plan.config
    tap = base + plan.weight_start + turn.tap * config.block_n * config.row_bytes
    for pair in range(config.WARP_COL_TILES // 2):
        at = tap + fragment_of_weights(config, thread.warp_column, pair, turn.k_tile, thread.lane)
        first = (buffer * config.WARP_COL_TILES + pair * 2) * 2
        registers = [b[first + j] for j in range(4)]
        T.evaluate(T.ptx[LDMATRIX](*registers, smem.ptr_to([at])))


def multiply_turn(
    plan: MmaSyncPlan, accumulator: Any, fragments: Fragments, turn: Turn, buffer: int
) -> None:
    """Emit a turn's multiplications."""
    columns = plan.config.WARP_COL_TILES
    for i in range(plan.config.WARP_ROW_TILES):
        upper, lower = (2 * pair for pair in turn.operands[2 * i : 2 * i + 2])
        rows = (upper, lower, upper + 1, lower + 1)
        for j in range(columns):
            multiply_registers(
                plan,
                accumulator,
                fragments,
                (i * columns + j) * 4,
                rows,
                (buffer * columns + j) * 2,
            )
