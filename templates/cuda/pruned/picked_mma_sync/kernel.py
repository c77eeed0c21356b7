"""The tile-wise product on mma.sync over x as it lies: a block for each tile and rows of y."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.cuda.device.launch.thread_kernel import call, thread_kernel
from autoq.templates.cuda.device.memory.copy_source import COPIES
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.mma.mma_sync import MmaSync
from autoq.templates.cuda.pruned.picked.kernel import packed_all
from autoq.templates.cuda.pruned.picked.pick_source import NEAR, TWO_WORDS
from autoq.templates.cuda.pruned.picked_mma_sync.config import (
    DEPTH,
    WARP_M,
    BlockTiling,
    PickedMmaTiling,
)
from autoq.templates.cuda.pruned.picked_mma_sync.source import MULTIPLY, PRODUCT, STAGE
from autoq.templates.cuda.pruned.tile_wise.help_source import ROWS_OF
from autoq.templates.cuda.pruned.tile_wise.kernel import BITS_OF, finish_source, given_terms
from autoq.templates.target import Target


def _product(tiling: PickedMmaTiling) -> str:
    view = tiling.operand.view
    atom = MmaSync(
        (WARP_M, 8, 32 // tiling.operand.size), view.workload.in_dtype, view.workload.weight_dtype,
        "float32" if view.floating else "int32",
    )  # fmt: skip
    made = PRODUCT.replace("INSTRUCTION", atom.instruction)
    return made.replace("KIND", "f" if view.floating else "r")


def _namespace(
    tiling: BlockTiling, words: str, product: str, stage: str, sizes: Mapping[str, int]
) -> DeviceNamespace:
    """The function multiply(smem, x, further inputs, `packed_all`, y, block, thread)."""
    view, config, cut = tiling.operand.view, tiling.config, tiling.cut
    multiply = MULTIPLY.replace("TWO_WORDS", words).replace("PLACES", NEAR)
    multiply = multiply.replace("COPIES", COPIES).replace("MULTIPLY_STAGE", stage)
    source = BITS_OF + product + ROWS_OF + finish_source(cut) + multiply
    for mark in (" ", "*"):
        source = source.replace("SUM" + mark, ("float" if view.floating else "int") + mark)
    return cut.epilogue.namespace(
        "picked",
        source + _entry(tiling),
        {},
        {
            "M": view.m, "N": view.n, "ALL": tiling.sums, "PAIRED": cut.paired,
            "X_PITCH": view.k * cut.size, "ROW_BYTES": tiling.operand.row_bytes,
            "BLOCK_BYTES": WARP_M * config.warps * tiling.operand.row_bytes,
            "WIDTH": cut.width, "ROWS": config.rows, "WARPS": config.warps, "SIDES": tiling.sides,
            "BLOCKS_M": tiling.blocks_m, **sizes, "X_STAGES": config.x_stages,
            "STAGES": config.stages, "W_BYTES": cut.weight_bytes, "PICKS_AT": cut.picks_at,
            "NEXT_AT": cut.next_at,
            "K_STAGES": cut.k_stages,
            "OUTPUT_BYTES": tiling.staged_bytes,
            "CHANNELS": cut.terms, "TERMS": cut.terms_of_tile, "ROW_TILES": cut.row_tiles,
            "FLOAT_BIAS": view.epilogue.float_bias,
        },
    )  # fmt: skip


def _entry(tiling: BlockTiling) -> str:
    """C++ of `multiply`, whose parameters are the pointers that there are."""
    inputs, terms, fields = given_terms(tiling.cut)
    return (
        "__device__ __forceinline__ void multiply(unsigned char* smem, const void* x, "
        f"{inputs}const void* values, const int* tiles, const void* places, {terms}void* y, "
        f"int block, int thread) {{\n  Constants from = {{}};\n  {fields}\n"
        "  multiply_picked(smem, (const unsigned char*)x, (const unsigned char*)values, "
        "(const int4*)tiles, places, from, (OUT*)y, block, thread);\n}\n"
    )


def build_kernel(tiling: PickedMmaTiling, target: Target) -> PrimFunc:
    """The kernel; parameters x, further inputs, those of `packed_all`, y."""
    sizes = {"DEPTH": DEPTH, "LAG": 0}
    return kernel_of(tiling, target, TWO_WORDS, _product(tiling), STAGE, sizes)


def kernel_of(
    tiling: BlockTiling,
    target: Target,
    words: str,
    product: str,
    stage: str,
    sizes: Mapping[str, int],
) -> PrimFunc:
    """A kernel by CUDA of words, of a product and of a stage's products, which read the sizes."""
    functions = _namespace(tiling, words, product, stage, sizes)
    workload = tiling.operand.view.workload
    parameters = [*workload.inputs, *packed_all(tiling.cut), *workload.outputs]

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        smem = builder.alloc_buffer((tiling.smem_bytes,), "uint8", scope="shared.dyn", align=1024)
        call(functions.function("multiply"), smem.data, *pointers, block, thread)

    return thread_kernel(
        parameters, tiling.blocks, tiling.threads, target, body, together=tiling.resident(target)
    )
