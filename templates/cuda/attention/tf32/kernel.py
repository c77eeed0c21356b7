"""The kernel of attention of float32: a block computes some query rows of one pair.

The way of FlashAttention-2 (Dao, 2023): a warp holds scores of its rows and a tile of keys as
accumulators, which become the left fragments of the product with values. Tiles arrive by cp.async
in a ring of stages. Each factor is the sum of two numbers of tf32, whose products tensor cores add
up in float32 (`product_source.py`; the three products of CUTLASS's 3xTF32).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.attention.pitches import mask_pitches, row_pitches
from autoq.templates.cuda.attention.softmax_source import SOFTMAX
from autoq.templates.cuda.attention.tf32.plan import Tf32AttentionPlan
from autoq.templates.cuda.attention.tf32.product_source import PARTS
from autoq.templates.cuda.attention.tf32.range_source import QUANTISE, QUANTISED, RANGE_OF_ROWS
from autoq.templates.cuda.attention.tf32.source import BLOCK, COPIES, FLOATS, PRODUCTS, STORE
from autoq.templates.cuda.device.launch.dependent_launch import cooperating
from autoq.templates.cuda.device.launch.grid_range import range_words
from autoq.templates.cuda.device.launch.thread_kernel import call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace


def build_kernel(plan: Tf32AttentionPlan, packed: Sequence[TensorSpec]) -> PrimFunc:
    """The kernel of a plan; parameters q, k, v, a mask that is an input, `packed`, y.

    Where y is quantised by its range, its scale, its zero point and the words of the grid follow.
    """
    work, config = plan.workload, plan.config
    given = [*work.inputs, *packed]
    words = [range_words(plan.blocks, "words").spec] if work.quantises else []
    parameters = [*given, *work.outputs, *words]
    functions = _functions(plan, [spec.name for spec in given[3:]])

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        smem = builder.alloc_buffer(
            (plan.smem_bytes // 4,), "float32", scope="shared.dyn", align=128
        )
        with builder.attr({"tirx.launch_bounds_min_blocks_per_sm": config.blocks_per_sm}):
            call(functions.function("attend"), *pointers, smem.data, block, thread)

    kernel = thread_kernel(parameters, plan.blocks, config.threads, plan.target, body)
    return cooperating(kernel) if work.quantises else kernel


def _functions(plan: Tf32AttentionPlan, names: Sequence[str]) -> DeviceNamespace:
    work, config = plan.workload, plan.config
    results, store = (QUANTISED, QUANTISE) if work.quantises else (FLOATS, STORE)
    block = BLOCK.replace("RESULTS", results) + store
    block = block.replace("PARAMETERS", "".join(f"const float* {name}, " for name in names))
    block = block.replace("MASK +", "mask +" if work.mask_axes else "q +")
    pitches = row_pitches(work)
    batch, head, row = mask_pitches(work)
    source = COPIES + SOFTMAX + PARTS + PRODUCTS + (RANGE_OF_ROWS if work.quantises else "") + block
    return DeviceNamespace("attention_tf32", source, {}, {
        "HEADS": work.heads, "QUERIES": work.queries, "KEYS": work.keys, "DEPTH": work.depth,
        "WIDTH": plan.depth, "PIECE": plan.piece, "KEY_ROW": plan.key_row,
        "VALUE_ROW": plan.value_row, "Q_PITCH": pitches["q"], "K_PITCH": pitches["k"],
        "V_PITCH": pitches["v"], "Y_PITCH": pitches["y"],
        "MASKED": bool(work.mask_axes), "MASK_BATCH": batch, "MASK_HEAD": head, "MASK_ROW": row,
        "CAUSAL": work.causal, "QUANTISED_SCORES": False, "QUANTISED_MASKED": False,
        "WARPS": config.warps, "TILE_KEYS": config.tile_keys, "STAGES": config.stages,
        "HOLDS_QUERIES": config.holds_queries, "SUMS_OF_PRODUCTS": False, "CUBICS": 0,
        "UNITS": False, "ROW_BLOCKS": plan.row_blocks, "BLOCKS": plan.blocks,
    })  # fmt: skip
