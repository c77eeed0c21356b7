"""The kernel of attention on mma.sync: a block computes some query rows of one pair.

The way of FlashAttention-2 (Dao, 2023): a warp holds scores of its rows and a tile of keys as
accumulators, which become the left fragments of the product with values. Tiles of keys and values
arrive by cp.async in a ring of stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.attention.block_source import BLOCK
from autoq.templates.cuda.attention.byte_source import BYTES
from autoq.templates.cuda.attention.float_source import FLOATS
from autoq.templates.cuda.attention.fragment_source import FRAGMENTS
from autoq.templates.cuda.attention.memory_source import MEMORY
from autoq.templates.cuda.attention.pitches import mask_pitches, row_pitches
from autoq.templates.cuda.attention.plan import AttentionPlan
from autoq.templates.cuda.attention.rounding_source import ROUNDING
from autoq.templates.cuda.attention.softmax_source import SOFTMAX
from autoq.templates.cuda.device.launch.thread_kernel import call, thread_kernel
from autoq.templates.cuda.device.memory.matrix_source import READ_MATRICES
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.mma.catalogue import largest
from autoq.templates.epilogue.cuda.values.numbers import NumberNamespace

_ENTRY = r"""
__device__ __forceinline__ void attend(
    const void* q, const void* k, const void* v, PARAMETERS void* y, void* shared, int block,
    int thread) {
  const int lane = thread % 32, of_warp = thread / 32 * (ROW_TILES * 16);
  const Block own = block_of(q, k, v, MASK, shared, block);
  fetch_first(own, thread);
  const auto attend_rows = [&](auto& state) {
    const auto begin = [&] { state.begin(BEGIN, own.smem + of_warp * PITCH, lane); };
    attend_block(state, own, shared, y, begin, block / ROW_BLOCKS, thread);
  };
  ROWS_OF_STATE
}
"""
_FLOAT_ROWS = """State state;
  attend_rows(state);"""
_BYTE_ROWS = """State<true> plain;
  plain.begin_rounding(scalars, zero_points);
  if (plain.is_plain()) return attend_rows(plain);
  State<false> state;
  state.begin_rounding(scalars, zero_points);
  attend_rows(state);"""
"""How the rows of a warp are computed."""


def build_kernel(plan: AttentionPlan, packed: Sequence[TensorSpec]) -> PrimFunc:
    """The kernel of a plan; parameters q, k, v, a mask that is an input, `packed`, y."""
    work, config = plan.workload, plan.config
    parameters = [*work.inputs, *packed, *work.outputs]
    functions = _functions(plan, [spec.name for spec in parameters[3:-1]])

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        smem = builder.alloc_buffer((plan.smem_bytes,), "uint8", scope="shared.dyn", align=128)
        with builder.attr({"tirx.launch_bounds_min_blocks_per_sm": config.blocks_per_sm}):
            call(functions.function("attend"), *pointers, smem.data, block, thread)

    return thread_kernel(parameters, plan.blocks, config.threads, plan.target, body)


def _functions(plan: AttentionPlan, names: Sequence[str]) -> DeviceNamespace:
    work, config = plan.workload, plan.config
    sums = "float32" if work.floating else "int32"
    shares = work.v_dtype if work.floating else "uint8"
    fragments = READ_MATRICES + FRAGMENTS
    for name, pair in (
        ("SCORES_PRODUCT", (work.q_dtype, work.k_dtype)), ("VALUES_PRODUCT", (shares, work.v_dtype))
    ):  # fmt: skip
        atom = largest(plan.target, *pair, sums)
        fragments = fragments.replace(name, atom.instruction)
    types = {"mask": "float", "scalars": "float", "zero_points": "int"}
    entry = _ENTRY.replace("PARAMETERS", "".join(f"const {types[n]}* {n}, " for n in names))
    entry = entry.replace("MASK", "mask" if work.mask_axes else "nullptr")
    entry = entry.replace("ROWS_OF_STATE", _FLOAT_ROWS if work.floating else _BYTE_ROWS)
    entry = entry.replace("BEGIN,", "scalars," if work.floating else "")
    source = (
        MEMORY
        + fragments
        + SOFTMAX
        + (FLOATS if work.floating else ROUNDING + BYTES)
        + BLOCK
        + entry
    )
    pitches = row_pitches(work)
    out = 1 if work.out_dtype == "float32" else plan.size
    batch, head, row = mask_pitches(work)
    return NumberNamespace(
        "attention",
        source,
        {"IN": work.q_dtype, "Q": work.q_dtype, "K": work.k_dtype, "OUT": work.out_dtype},
        {
            "HEADS": work.heads, "QUERIES": work.queries,
            "KEYS": work.keys, "DEPTH": work.depth,
            "SIZE": plan.size, "PIECE": plan.piece, "OUT_FLOATS": work.out_dtype == "float32",
            "Q_PITCH": pitches["q"] * plan.size, "K_PITCH": pitches["k"] * plan.size,
            "V_PITCH": pitches["v"] * plan.size, "Y_PITCH": pitches["y"] * out,
            "MASKED": bool(work.mask_axes), "MASK_BATCH": batch, "MASK_HEAD": head, "MASK_ROW": row,
            "CAUSAL": work.causal, "QUANTISED_SCORES": work.quantised_scores,
            "RESCALED_SCORES": work.rescaled_scores, "QUANTISED_MASKED": work.quantised_masked,
            "TWICE": plan.twice,
            "WARPS": config.warps, "ROW_TILES": config.row_tiles, "TILE_KEYS": config.tile_keys,
            "STAGES": config.stages, "HOLDS_QUERIES": config.holds_queries,
            "SUMS_OF_PRODUCTS": config.sums_of_products, "KEEPS_SCORES": config.keeps_scores,
            "CUBICS": 0, "OFFSETS": False, "LEAST_PAIRS": False,
            "UNITS": not (work.floating or config.keeps_scores),
            "KEPT_AT": plan.kept_at, "SUMS_AT": plan.sums_at,
            "ROW_BLOCKS": plan.row_blocks,
        },
    )  # fmt: skip
