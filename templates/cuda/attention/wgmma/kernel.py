"""The kernel of attention on wgmma: a warp loads, warpgroups compute 64 query rows each.

The way of FlashAttention-3 (Shah et al., 2024): scores become shares in the registers of a
consumer, which are A of the product with values, while tensor cores compute the next scores and
the products of other consumers.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm.script import tirx as T
from tvm.tirx import PrimFunc

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.attention.float_source import ROUNDED
from autoq.templates.cuda.attention.pitches import mask_pitches
from autoq.templates.cuda.attention.rounding_source import ROUNDING
from autoq.templates.cuda.attention.softmax_source import SOFTMAX
from autoq.templates.cuda.attention.wgmma.block_source import BLOCK
from autoq.templates.cuda.attention.wgmma.byte_loop_source import BYTE_LOOP
from autoq.templates.cuda.attention.wgmma.byte_source import BYTES
from autoq.templates.cuda.attention.wgmma.entry_source import BYTE_ROWS, ENTRY, FLOAT_ROWS
from autoq.templates.cuda.attention.wgmma.float_loop_source import FLOAT_LOOP
from autoq.templates.cuda.attention.wgmma.float_source import FLOATS
from autoq.templates.cuda.attention.wgmma.plan import STEP_BYTES, WgmmaAttentionPlan
from autoq.templates.cuda.attention.wgmma.turn_source import TURN
from autoq.templates.cuda.device.launch.dependent_launch import overlapping
from autoq.templates.cuda.device.memory.matrix_source import READ_MATRICES
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.memory.pipeline_source import PIPELINE
from autoq.templates.cuda.device.memory.tma import ENCODE_TILED
from autoq.templates.cuda.device.mma.wgmma import Wgmma
from autoq.templates.epilogue.cuda.values.numbers import NumberNamespace

_STATE = "template <bool PLAIN> struct State"
_BYTE_PARTS = ROUNDING + BYTES.replace(_STATE, READ_MATRICES + TURN + _STATE, 1) + BYTE_LOOP


def build_kernel(plan: WgmmaAttentionPlan, packed: Sequence[TensorSpec]) -> PrimFunc:
    """The kernel of a plan; parameters q, k, v, a mask that is an input, `packed`, y."""
    work, config = plan.workload, plan.config
    q, k, v = work.inputs[:3]
    (y,) = work.outputs
    rest = (*work.inputs[3:], *packed)
    names = [spec.name for spec in rest]
    attend = _functions(plan, names).function("attend")
    given = len(work.inputs) > 3
    mask_shape, scalars_shape = work.mask_shape, packed[0].shape
    zero_points_shape = () if work.floating else packed[1].shape
    threads, rows, keys = config.threads, work.queries, work.keys

    @T.jit
    def main(
        q_ptr: T.handle,
        k_ptr: T.handle,
        v_ptr: T.handle,
        mask_ptr: T.Optional(T.handle),
        scalars_ptr: T.handle,
        zero_points_ptr: T.Optional(T.handle),
        constant_mask_ptr: T.Optional(T.handle),
        y_ptr: T.handle,
    ):
        q_array = T.match_buffer(q_ptr, q.shape, q.dtype, align=16)
        k_array = T.match_buffer(k_ptr, k.shape, k.dtype, align=16)
        v_array = T.match_buffer(v_ptr, v.shape, v.dtype, align=16)
        scalars = T.match_buffer(scalars_ptr, scalars_shape, "float32", align=16)
        if zero_points_ptr is not None:
            zero_points = T.match_buffer(zero_points_ptr, zero_points_shape, "int32", align=16)
        else:
            zero_points = T.meta_var(None)
        if mask_ptr is not None:
            mask = T.match_buffer(mask_ptr, mask_shape, "float32", align=16)
        elif constant_mask_ptr is not None:
            mask = T.match_buffer(constant_mask_ptr, mask_shape, "float32", align=16)
        else:
            mask = T.meta_var(None)
        y_array = T.match_buffer(y_ptr, y.shape, y.dtype, align=16)
        q_map: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.call_packed(
            ENCODE_TILED, q_map, q.dtype, 4, q_array.data, *plan.map_of("q", q.dtype, rows, 64)
        )
        k_map: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.call_packed(
            ENCODE_TILED, k_map, k.dtype, 4, k_array.data,
            *plan.map_of("k", k.dtype, keys, config.tile_keys),
        )  # fmt: skip
        v_map: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.call_packed(
            ENCODE_TILED, v_map, v.dtype, 4, v_array.data,
            *plan.map_of("v", v.dtype, keys, config.tile_keys),
        )  # fmt: skip
        if plan.stores_boxes:
            y_map: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
            T.call_packed(
                ENCODE_TILED, y_map, y.dtype, 4, y_array.data, *plan.map_of("y", y.dtype, rows, 64)
            )
        else:
            y_map = T.meta_var(q_map)

        T.device_entry()
        T.attr({"tirx.launch_bounds_min_blocks_per_sm": config.blocks_per_sm})
        block = T.cta_id([plan.grid])
        thread = T.thread_id([threads])
        smem = T.alloc_buffer((plan.smem_bytes,), "uint8", scope="shared.dyn", align=1024)
        maps = T.meta_var([T.address_of(one) for one in (q_map, k_map, v_map, y_map)])
        found = T.meta_var({"mask": mask, "scalars": scalars, "zero_points": zero_points})
        arrays = T.meta_var([found[name].data for name in names])
        T.evaluate(
            T.cuda.func_call(
                attend.name, *maps, *arrays, y_array.data, smem.data, block, thread,
                source_code=attend.source,
            )
        )  # fmt: skip

    absent = {} if given else {"mask_ptr": None}
    if work.floating:
        absent["zero_points_ptr"] = None
    if not work.constant_mask:
        absent["constant_mask_ptr"] = None
    return overlapping(main.specialize(**absent))


def _functions(plan: WgmmaAttentionPlan, names: Sequence[str]) -> DeviceNamespace:
    work, config = plan.workload, plan.config
    pitches = {"bhld": work.depth, "blhd": work.depth * work.heads}
    types = {"mask": "float", "scalars": "float", "zero_points": "int"}
    entry = ENTRY.replace("PARAMETERS", "".join(f"const {types[n]}* {n}, " for n in names))
    entry = entry.replace("MASK +", "mask +" if work.mask_axes else "(const float*)nullptr +")
    entry = entry.replace("ROWS_OF_STATE", FLOAT_ROWS if work.floating else BYTE_ROWS)
    entry = entry.replace("HELP", "" if work.floating else "zero_points,")
    scores, values = _atoms(plan)
    source = PIPELINE + scores.assembly("multiply_keys") + values.assembly("multiply_values")
    source += BLOCK + SOFTMAX
    source += ROUNDED + FLOATS + FLOAT_LOOP if work.floating else _BYTE_PARTS
    source += entry
    batch, head, row = mask_pitches(work)
    return NumberNamespace(
        "attention",
        source,
        {"IN": work.q_dtype, "Q": work.q_dtype, "K": work.k_dtype, "OUT": work.out_dtype},
        {
            "HEADS": work.heads, "PAIRS": work.pairs, "QUERIES": work.queries, "KEYS": work.keys,
            "DEPTH": work.depth, "SIZE": plan.size, "LINE": plan.line,
            "OUT_FLOATS": not plan.stores_boxes, "Y_PITCH": pitches[work.y_order] * plan.size_of_y,
            "MASKED": bool(work.mask_axes), "MASK_BATCH": batch, "MASK_HEAD": head, "MASK_ROW": row,
            "CAUSAL": work.causal, "QUANTISED_SCORES": work.quantised_scores,
            "RESCALED_SCORES": work.rescaled_scores, "QUANTISED_MASKED": work.quantised_masked,
            "TWICE": plan.twice, "KEEPS_POWERS": config.keeps_powers,
            "SUMS_OF_PRODUCTS": False, "CUBICS": config.cubics,
            "CONSUMERS": config.consumers, "SMALL": config.small,
            "FULL_PAIRS": plan.full_pairs, "SMALL_BLOCKS": max(1, plan.small_blocks),
            "TILE_KEYS": config.tile_keys, "STAGES": config.stages,
            "GIVES_REGISTERS": config.gives_registers,
            "PRODUCER_REGISTERS": plan.registers.producer,
            "CONSUMER_REGISTERS": plan.registers.consumer,
            "PERSISTENT": config.persistent, "SHARES_ROWS": plan.shares_rows,
            "SHARED_AT": plan.shared_at, "BLOCKS": plan.blocks, "GRID": plan.grid,
            "UNITS": not work.floating, "OFFSETS": True, "LEAST_PAIRS": True,
            "AHEAD": config.ahead, "TURNS": config.turns,
            "BARRIERS_AT": plan.barriers_at, "ROW_BLOCKS": plan.row_blocks,
        },
    )  # fmt: skip


def _atoms(plan: WgmmaAttentionPlan) -> tuple[Wgmma, Wgmma]:
    """The instructions of scores, and of shares with values."""
    work, tile_keys = plan.workload, plan.config.tile_keys
    k = STEP_BYTES // plan.size
    shares, sums = (work.v_dtype, "float32") if work.floating else ("uint8", "int32")
    scores = Wgmma((64, tile_keys, k), work.q_dtype, work.k_dtype, sums)
    values = Wgmma((64, work.depth, k), shares, work.v_dtype, sums,
                   a_from_registers=True, b_transposed=work.floating)  # fmt: skip
    return scores, values
