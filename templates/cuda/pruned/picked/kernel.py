"""The tile-wise product on wgmma over x as it lies: one launch, a persistent kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.device.launch.thread_kernel import call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.memory.ring_source import RING
from autoq.templates.cuda.device.mma.wgmma import Wgmma
from autoq.templates.cuda.device.turned.row_steps import LINE_BYTES, STAGE_K
from autoq.templates.cuda.device.turned.window_source import window_source
from autoq.templates.cuda.pruned.picked.bordered import TILE_W
from autoq.templates.cuda.pruned.picked.config import PickedTiling
from autoq.templates.cuda.pruned.picked.hold_source import HOLD, NOT_HELD
from autoq.templates.cuda.pruned.picked.lean_source import LEAN
from autoq.templates.cuda.pruned.picked.load_source import (
    BORDERED_BOX,
    BORDERED_ROWS,
    LOAD,
    PIXELS_BOX,
    ROWS_BOX,
)
from autoq.templates.cuda.pruned.picked.multiply_source import MULTIPLY
from autoq.templates.cuda.pruned.picked.pack import StagesOf, pack_schedule, schedule_specs
from autoq.templates.cuda.pruned.picked.pick_source import BORDERED, NEAR, PICK
from autoq.templates.cuda.pruned.picked.store_source import HELP_SIDES, NO_HELP
from autoq.templates.cuda.pruned.picked.turned_source import TURNED, TURNED_BOX
from autoq.templates.cuda.pruned.picked.whole_source import WHOLE
from autoq.templates.cuda.pruned.picked.window_source import NEWEST_TWO
from autoq.templates.cuda.pruned.tile_wise.help_source import ALONE, OUTPUTS, ROWS_OF, STORE
from autoq.templates.cuda.pruned.tile_wise.item_source import ITEM
from autoq.templates.cuda.pruned.tile_wise.kernel import (
    BITS_OF,
    finish_source,
    given_terms,
    terms_in_order,
)
from autoq.templates.cuda.pruned.tile_wise.tiling import HELPING
from autoq.templates.target import Target
from autoq.templates.workload import Constants


def _namespace(tiling: PickedTiling, target: Target) -> DeviceNamespace:
    """The function multiply(smem, x map, further inputs, `packed_all`, y, block, thread)."""
    view, config, epilogue = tiling.view, tiling.config, tiling.epilogue
    workload = view.workload
    sums = "float32" if view.floating else "int32"
    atom = Wgmma(
        (64, tiling.width, 32 // tiling.size), workload.in_dtype, workload.weight_dtype, sums,
        a_from_registers=config.picked,
    )  # fmt: skip
    assembly = atom.assembly("product", 0).replace("unsigned* d", "int* d")
    begin, box = ROWS_BOX if tiling.operand.images is None else PIXELS_BOX
    rows, places = ROWS_OF, NEAR
    if config.bordered:
        (begin, box), rows, places = BORDERED_BOX, BORDERED_ROWS, BORDERED
    if config.turned:
        begin, box = TURNED_BOX
    load = ITEM + LOAD.replace("BEGIN_BOXES", begin).replace("LOAD_BOX", box)
    tile = PICK.replace("PLACES", places) if config.picked else WHOLE
    tile = LEAN if tiling.listed else tile
    window = NEWEST_TWO
    if config.turned:
        window, tile = window_source("XPlace", "X_STAGES"), TURNED
    multiply = MULTIPLY.replace("WINDOW", window).replace("MULTIPLY_TILE", tile)
    multiply = multiply.replace("HOLD", HOLD if tiling.held_entries else NOT_HELD)
    own = STORE + HELP_SIDES if config.helped else ALONE + NO_HELP
    source = (
        BITS_OF
        + assembly
        + RING
        + rows
        + OUTPUTS
        + load
        + finish_source(tiling, tiling.held_entries > 0)
        + own
        + multiply
    )
    for mark in (" ", "*"):
        source = source.replace("SUM" + mark, ("float" if view.floating else "int") + mark)
    return epilogue.namespace(
        "picked",
        source + _entry(tiling),
        {},
        {
            **_image_sizes(tiling), **_x_sizes(tiling), "ROW_BYTES": tiling.operand.row_bytes,
            "READ_AHEAD": tiling.fragments > 1, "HELD": tiling.held_entries,
            "M": view.m, "N": view.n, "SIZE": tiling.size, "ALL": tiling.sums,
            "PAIRED": tiling.paired,
            "WIDTH": tiling.width, "ROWS": config.rows, "SIDES": config.sides,
            "SPLITS": config.splits, "CONSUMERS": tiling.consumers, "BLOCKS_M": tiling.blocks_m,
            "TEAM": tiling.team,
            "DEPTH": config.depth, "X_STAGES": config.x_stages, "STAGES": config.stages,
            "W_BYTES": tiling.weight_bytes, "W_STAGE_BYTES": tiling.weight_stage_bytes,
            "PICKS_AT": tiling.picks_at,
            "K_STAGES": tiling.k_stages, "OUTPUT_BYTES": tiling.staged_bytes,
            "CHANNELS": tiling.terms, "TERMS": tiling.consumer_words,
            "HELPED": config.helped, "HELPER_REGISTERS": HELPING,
            "FLOAT_BIAS": view.epilogue.float_bias, "ROW_GROUPS": tiling.row_groups,
            "ITEMS": tiling.items, "CLUSTER": config.cluster,
            "CLUSTERS": _clusters(tiling, target), "PRODUCER_REGISTERS": tiling.budget.producer,
            "CONSUMER_REGISTERS": tiling.budget.consumer,
        },
    )  # fmt: skip


def _x_sizes(tiling: PickedTiling) -> dict[str, int]:
    """Numbers of stages of x: bytes, those that arrive, and the way from 64 rows to the next."""
    bordered, row_bytes = tiling.bordered, tiling.operand.row_bytes
    stage = {"X_STAGE_BYTES": tiling.x_stage_bytes}
    if tiling.config.turned:
        return {
            **stage, "X_ARRIVES": tiling.x_stage_bytes, "STAGE_K": STAGE_K,
            "PANELS": tiling.config.rows * tiling.size // LINE_BYTES,
            "PANEL_BYTES": STAGE_K * LINE_BYTES, "BLOCK_BYTES": 0,
            "FRAGMENTS": tiling.fragments,
        }  # fmt: skip
    if bordered is None:
        return {**stage, "X_ARRIVES": tiling.x_stage_bytes, "BLOCK_BYTES": 64 * row_bytes}
    return {
        **stage, "X_ARRIVES": bordered.panels * bordered.box_bytes, "PANELS": bordered.panels,
        "PANEL_BYTES": bordered.panel_bytes, "TILE_PITCH": bordered.wide, "ACROSS": bordered.across,
        "DOWN": bordered.down, "TILE_W": TILE_W,
        "BLOCK_BYTES": 64 // TILE_W * bordered.wide * row_bytes,
    }  # fmt: skip


def _image_sizes(tiling: PickedTiling) -> dict[str, int]:
    """Numbers of `PIXELS_BOX`."""
    conv = tiling.operand.images
    if conv is None:
        return {}
    return {
        "IMAGES": conv.n, "IMAGE_P": conv.p, "IMAGE_Q": conv.q, "STRIDE_H": conv.stride[0],
        "STRIDE_W": conv.stride[1], "TOP": conv.padding[0], "LEFT": conv.padding[1],
        "FILTER_S": conv.s, "DILATION_H": conv.dilation[0], "DILATION_W": conv.dilation[1],
        "STAGES_OF_TAP": tiling.operand.stages_of_tap,
    }  # fmt: skip


def _clusters(tiling: PickedTiling, target: Target) -> int:
    return min(tiling.items, target.units * tiling.config.blocks // tiling.config.cluster)


def _entry(tiling: PickedTiling) -> str:
    """C++ of `multiply`, whose parameters are the pointers that there are."""
    inputs, terms, fields = given_terms(tiling)
    return (
        "__device__ __forceinline__ void multiply(unsigned char* smem, unsigned long long x_map, "
        f"{inputs}const void* values, const int* tiles, const void* places, {terms}void* y, "
        f"int block, int thread) {{\n  Constants from = {{}};\n  {fields}\n"
        "  multiply_picked(smem, x_map, (const unsigned char*)values, (const int4*)tiles, places, "
        "from, (OUT*)y, block, thread);\n}\n"
    )


def build_kernel(tiling: PickedTiling, target: Target) -> PrimFunc:
    """The kernel; parameters x, or x turned, further inputs, those of `packed_all`, y."""
    config, functions = tiling.config, _namespace(tiling, target)
    workload = tiling.operand.images or tiling.view.workload
    bordered = tiling.bordered
    x = tiling.operand.mapped(config.rows) if bordered is None else bordered.mapped()
    if config.turned:
        x = tiling.operand.turned_map(tiling.pitch)
    parameters = [x, *workload.inputs[1:], *packed_all(tiling), *workload.outputs]

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        smem = builder.alloc_buffer((tiling.smem_bytes,), "uint8", scope="shared.dyn", align=1024)
        call(functions.function("multiply"), smem.data, *pointers, block, thread)

    return thread_kernel(
        parameters, _clusters(tiling, target) * config.cluster, tiling.threads, target, body,
        cluster=config.cluster, together=config.blocks,
    )  # fmt: skip


def packed_all(tiling: PickedTiling) -> tuple[TensorSpec, ...]:
    """The arrays of `pack_all`."""
    return (*schedule_specs(tiling), *tiling.epilogue.constant_parameters())


def pack_all(
    tiling: PickedTiling, constants: Constants, stages_of: StagesOf | None = None
) -> tuple[np.ndarray, ...]:
    """The schedule, as `pack_schedule` makes it, and what the epilogue reads."""
    constants = tiling.operand.constants(constants)
    schedule = pack_schedule(tiling, constants, stages_of)
    specs = tiling.epilogue.constant_parameters()
    return (*schedule.arrays, *terms_in_order(tiling.view, specs, schedule.columns, constants))
