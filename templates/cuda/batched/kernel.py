"""The kernel of a batched product on wgmma: a block computes a tile of y of one pair."""

from __future__ import annotations

from collections.abc import Sequence

from tvm.script import tirx as T
from tvm.tirx import PrimFunc

from autoq.templates.arrays.element import element
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.batched.block_source import BLOCK
from autoq.templates.cuda.batched.config import WARPGROUP_COLUMNS
from autoq.templates.cuda.batched.plan import BatchedWgmmaPlan
from autoq.templates.cuda.batched.product_source import PRODUCTS
from autoq.templates.cuda.batched.store_source import store_source
from autoq.templates.cuda.device.launch.dependent_launch import overlapping
from autoq.templates.cuda.device.memory.matrix_source import READ_MATRICES
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.memory.pipeline_source import PIPELINE
from autoq.templates.cuda.device.memory.tma import ENCODE_TILED
from autoq.templates.epilogue.cuda.values.numbers import NumberNamespace

_MOST_UNROLLED = 8
"""Steps of a loop that is unrolled; the registers of two steps are others."""

_ENTRY = r"""
struct NoZeroPoints {};
__device__ __forceinline__ void product(
    Map x_map, Map other_map, Map y_map, ZEROS const float* scale, const float* scalars, void* y,
    const void* shared, int number, int thread) {
  const Block block(shared, number);
  const Maps maps = {x_map, other_map, y_map};
  begin_loads(block, maps, thread);
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  __syncthreads();
  const int warpgroup = __shfl_sync(0xffffffffu, thread / 128, 0);
  const int column = warpgroup % COLUMNS, row_group = warpgroup / COLUMNS;
  Values values(scale, scalars);
  Sums sums;
  ZERO_POINTS zeros;
  BEGIN
  #pragma unroll 1
  for (int pass = 0; pass < PASSES; ++pass) {
    const int part = column * PASSES + pass;
    multiply_all(sums, zeros, block, maps, part, row_group, thread);
    END
    // Sums of rows of x are there, and rows of y may take the place of the stages.
    if (pass == 0) __syncthreads();
    store_part(sums, values, block, maps, y, part, row_group, thread);
  }
  end_store(block, y, column, row_group, thread);
}
"""
_BEGIN = "zeros.begin(zero_points);"
_END = (
    "zeros.end_columns(); "
    "if (pass == 0) zeros.end_rows(block, row_group * ROWS, column * 128 + thread % 128); "
    "values.take(zeros.columns, zeros.other != 0);"
)


def build_kernel(plan: BatchedWgmmaPlan, packed: Sequence[TensorSpec]) -> PrimFunc:
    """The kernel of a plan; parameters x, other, `packed`, y."""
    work, config = plan.workload, plan.config
    x, other = work.inputs
    (y,) = work.outputs
    product = _functions(plan).function("product")
    *zeros, scales, numbers = packed
    other_rows = plan.step_k if plan.turned else plan.other_box_parts * WARPGROUP_COLUMNS
    other_rows //= config.cluster

    @T.jit
    def main(
        x_ptr: T.handle,
        other_ptr: T.handle,
        zero_points_ptr: T.Optional(T.handle),
        scale_ptr: T.handle,
        scalars_ptr: T.handle,
        y_ptr: T.handle,
    ):
        x_array = T.match_buffer(x_ptr, x.shape, x.dtype, align=16)
        other_array = T.match_buffer(other_ptr, other.shape, other.dtype, align=16)
        if zero_points_ptr is not None:
            zero_points = T.match_buffer(zero_points_ptr, zeros[0].shape, "int32", align=16)
            taken = T.meta_var([zero_points.data])
        else:
            taken = T.meta_var([])
        scale = T.match_buffer(scale_ptr, scales.shape, "float32", align=16)
        scalars = T.match_buffer(scalars_ptr, numbers.shape, "float32", align=16)
        y_array = T.match_buffer(y_ptr, y.shape, y.dtype, align=16)
        other_map: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.call_packed(
            ENCODE_TILED, other_map, other.dtype, 4, other_array.data,
            *plan.map_of(work.other_order, other.dtype, plan.other_line, other_rows),
        )  # fmt: skip
        x_map: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.call_packed(
            ENCODE_TILED, x_map, x.dtype, 4, x_array.data,
            *plan.map_of(work.x_order, x.dtype, plan.line, config.rows),
        )  # fmt: skip
        if plan.boxes:
            y_map: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
            T.call_packed(
                ENCODE_TILED, y_map, y.dtype, 4, y_array.data,
                *plan.map_of(work.y_order, y.dtype, plan.y_line, config.rows),
            )  # fmt: skip
        else:
            y_map = T.meta_var(other_map)

        T.device_entry()
        T.attr({"tirx.launch_bounds_min_blocks_per_sm": config.blocks_per_sm})
        if config.cluster > 1:
            cluster = T.cluster_id([plan.blocks // config.cluster])
            rank = T.cta_id_in_cluster([config.cluster])
            block = T.meta_var(cluster * config.cluster + rank)
        else:
            block = T.cta_id([plan.blocks])
        thread = T.thread_id([config.threads])
        smem = T.alloc_buffer((plan.smem_bytes,), "uint8", scope="shared.dyn", align=1024)
        maps = T.meta_var([T.address_of(one) for one in (x_map, other_map, y_map)])
        T.evaluate(
            T.cuda.func_call(
                product.name, *maps, *taken, scale.data, scalars.data, y_array.data, smem.data,
                block, thread, source_code=product.source,
            )
        )  # fmt: skip

    return overlapping(main.specialize(**({"zero_points_ptr": None} if work.floating else {})))


def _functions(plan: BatchedWgmmaPlan) -> DeviceNamespace:
    work, config = plan.workload, plan.config
    out = element(work.epilogue.out_dtype)
    sums = "float" if work.floating else "unsigned"
    least, most = out.range or (0, 0)
    entry = _ENTRY.replace("ZEROS", "" if work.floating else "const int* zero_points,")
    entry = entry.replace("ZERO_POINTS", "NoZeroPoints" if work.floating else "ZeroPoints")
    entry = entry.replace("BEGIN", "" if work.floating else _BEGIN)
    entry = entry.replace("END", "" if work.floating else _END)
    source = (
        PIPELINE
        + plan.atom.assembly("multiply")
        + BLOCK
        + f"using Sums = {sums}[ROW_TILES][4];\n"
        + READ_MATRICES
        + PRODUCTS
        + store_source(work.floating, plan.boxes, f"{out.ptx}{'x2' if work.floating else ''}")
        + entry
    )
    return NumberNamespace(
        "batched",
        source,
        {"X": work.in_dtype, "OTHER": work.other_dtype, "OUT": work.epilogue.out_dtype},
        {
            "HEADS": work.heads, "M": work.m, "N": work.n, "K": work.k,
            "SIZE": plan.size, "OUT_SIZE": plan.out_size, "TURNED": plan.turned,
            "LINE": plan.line, "STEPS": plan.steps, "STAGES": config.stages,
            "CLUSTER": config.cluster, "COLUMNS": config.columns, "PASSES": config.passes,
            "ROW_GROUPS": config.row_groups, "ROWS": config.rows,
            "BOX_PARTS": plan.other_box_parts, "TILES_M": plan.tiles_m, "TILES_N": plan.tiles_n,
            "Y_AT": plan.y_at, "Y_LINE": plan.y_line, "RUN_BYTES": plan.run_bytes,
            "SUMS_AT": plan.sums_at, "BARRIERS_AT": plan.barriers_at,
            "UNROLL": plan.steps if plan.steps <= _MOST_UNROLLED else 2,
            "SMALL_SUMS": plan.small_sums, "LEAST": least, "MOST": most,
        },
    )  # fmt: skip
