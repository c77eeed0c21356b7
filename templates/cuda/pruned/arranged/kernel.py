"""The 2:4 product of x in order, whose outputs become whole words of y."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.templates.cuda.device.launch.mapped import Mapped
from autoq.templates.cuda.device.launch.thread_kernel import Start, call, thread_kernel
from autoq.templates.cuda.device.memory.swizzle import swizzle_mode
from autoq.templates.cuda.device.memory.tma import ENCODE_TILED, row_values, tiled_map
from autoq.templates.cuda.pruned.arranged.config import ArrangedTiling
from autoq.templates.cuda.pruned.arranged.pack import packed_all
from autoq.templates.cuda.pruned.tile_wise.words_source import store_words
from autoq.templates.cuda.pruned.two_four.config import ROW_BYTES
from autoq.templates.cuda.pruned.two_four.kernel import epilogue_of, fields_of, namespace_of
from autoq.templates.target import Target

_ROWS = r"""
constexpr int ROW_WORDS = N * OUT_BYTES / 4, ROW_PITCH = ROW / 4;
WORDS
struct Outputs { OUT* y; const int2* spans; const void* places; };
struct Way { int4 tile, entry; };  // as `store_words` has them
__device__ __forceinline__ Way way_of(const Outputs& to, int block, int thread) {
  const int2 span = __ldg(to.spans + block);
  const int4 tile = make_int4(0, 0, span.x, span.y);
  return {tile, read_entry(to.places, tile, thread % 32)};
}
__device__ __forceinline__ void store_rows(
    const unsigned char* from, const Outputs& to, const Way& way, int first_row, int, int thread) {
  #pragma unroll 1
  for (int row = thread / 32 * 16; row < PASS && first_row + row < M; row += 64)
    store_rows(reinterpret_cast<const unsigned*>(from + row * ROW), Constants{}, to.places,
               way.entry, to.y, first_row + row, min(16, M - first_row - row), way.tile,
               thread % 32);
}
"""
_LISTED_K = r"""
// Stages of x that a tile of weights has no use for are left out.
struct Extent { int weight_tiles; const int* stages; };
struct Stages { int first, count; };
__device__ __forceinline__ Stages stages_of(const Extent& extent, int tile) {
  const int first = __ldg(extent.stages + tile);
  return {first, __ldg(extent.stages + tile + 1) - first};
}
__device__ __forceinline__ int place_of_stage(const Extent& extent, const Stages& own, int stage) {
  return stage < own.count ? __ldg(extent.stages + WEIGHT_TILES + 1 + own.first + stage) : 0;
}
// So that ptxas knows it of a loop's count.
__device__ __forceinline__ int same_for_all(int stages) {
  return __shfl_sync(0xffffffff, stages, 0);
}
// Rows of a stage lie behind each other.
__device__ __forceinline__ int2 of_x(int stage, int row) { return make_int2(0, stage * M + row); }
"""
_ENTRY = r"""
__device__ __forceinline__ void multiply(
    unsigned char* smem, unsigned long long x_map, const int* order, const int* stages,
    const void* spans, const void* places, const void* weight, PARAMETERSvoid* y, int block,
    int thread) {
  asm volatile("griddepcontrol.launch_dependents;" : : : "memory");
  Constants from = {};
  FIELDS
  // The same for all lanes.
  const Extent extent = {__shfl_sync(0xffffffff, __ldg(order + 1), 0), stages};
  multiply_two_four(smem, extent, x_map, (const unsigned char*)weight, from,
                    {(OUT*)y, (const int2*)spans, places}, block, thread);
}
"""


def product_kernel(tiling: ArrangedTiling, target: Target) -> PrimFunc:
    """The product; parameters x in order, `packed_all`, y."""
    sparse, view, config = tiling.sparse, tiling.view, tiling.config
    parameters, fields = fields_of(epilogue_of(sparse))
    rows = _ROWS.replace("WORDS\n", store_words("(r + i * step)") + "\n", 1)
    entry = _ENTRY.replace("PARAMETERS", parameters).replace("FIELDS", fields)
    sizes = {"N": view.n, "WEIGHT_TILES": sparse.weight_tiles, "ZEROED": True}
    functions = namespace_of(sparse, target, _LISTED_K, rows, entry, sizes)
    x, box_rows = tiling.arranged, config.columns // config.cluster
    box = [row_values(x.dtype, ROW_BYTES), box_rows]
    rows_of_all, each = x.shape
    tiled = tiled_map(x.dtype, [each, rows_of_all], [each], box, swizzle_mode(ROW_BYTES))
    given = [Mapped(x, ENCODE_TILED, 2, tiled), *packed_all(tiling), *view.workload.outputs]

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        smem = builder.alloc_buffer((sparse.smem_bytes,), "uint8", scope="shared.dyn", align=1024)
        call(functions.function("multiply"), smem.data, *pointers, block, thread)

    return thread_kernel(
        given, sparse.clusters(target) * config.cluster, sparse.threads, target, body,
        cluster=config.cluster, start=Start.AT_ONCE, together=1,
    )  # fmt: skip
