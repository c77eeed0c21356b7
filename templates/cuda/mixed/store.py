"""The epilogue of the mixed-input product: D [weight rows, rows of x] to y by stmatrix and TMA."""

from __future__ import annotations

from tvm.script import tirx as T

from autoq.templates.cuda.device.functions import DeviceFunction, device_function
from autoq.templates.cuda.device.memory.tma import store_tiled
from autoq.templates.epilogue.cuda.activations import activation_source
from autoq.templates.operators.float_gemm import FloatGemm

_SOURCE = r"""
__device__ __forceinline__ float finish_@(float sum, float scale, float bias) {
  return activated_@(sum * scale + bias);
}
__device__ __forceinline__ unsigned finish_pair_@(float left, float right, float scale,
                                                 float bias) {
  unsigned word;
  asm("cvt.rn.KIND.f32 %0, %1, %2;"
      : "=r"(word) : "f"(finish_@(right, scale, bias)), "f"(finish_@(left, scale, bias)));
  return word;
}
"""


def finish_pair(workload: FloatGemm) -> DeviceFunction:
    """finish_pair(left, right, scale, bias): two results of one weight row as a word."""
    source = activation_source(workload.activation) + _SOURCE
    source = source.replace("KIND", "f16x2" if workload.out_dtype == "float16" else "bf16x2")
    return device_function("finish_pair", source)


@T.meta_class
class TileStore:
    """How a consumer stores its part of an output tile, through two staging buffers of its own.

    finish: of `finish_pair`; scales: a thread's scales and biases, as `load_rows` fills them;
    packed: four words of results; turn: which of the two buffers comes next.
    """

    def __init__(self, finish, smem, y_map, scales, packed, turn):
        self.finish = finish
        self.smem, self.y_map = smem, y_map
        self.scales, self.packed, self.turn = scales, packed, turn

    @T.inline
    def stage_pair(self, plan, accumulator, offset, block, group, count, thread):
        """One or two groups of eight columns of a block of 64 weight rows, into a buffer."""
        for j in T.unroll(count):
            for half in T.unroll(2):
                at = T.meta_var(block * plan.atom.d_registers + (group + j) * 4 + half * 2)
                self.packed[2 * j + half] = T.cuda.func_call(
                    self.finish.name,
                    accumulator[at],
                    accumulator[at + 1],
                    self.scales[4 * block + half],
                    self.scales[4 * block + 2 + half],
                    source_code=self.finish.source,
                    return_type="uint32",
                )
        within = T.meta_var(group % (plan.store_rows // 8))
        if plan.workload.weight_left:
            row = T.meta_var(thread.warp * 16 + thread.lane % 16)
            chunk = T.meta_var(within + thread.lane // 16 % count)
        else:
            row = T.meta_var((within + thread.lane // 16 % count) * 8 + thread.lane % 8)
            chunk = T.meta_var(thread.warp * 2 + thread.lane // 8 % 2)
        turn = T.meta_var("" if plan.workload.weight_left else ".trans")
        T.ptx[f"stmatrix.sync.aligned.m8n8.x{2 * count}{turn}.shared.b16"](
            self.smem.ptr_to([offset + plan.staged(row, chunk)]),
            *[self.packed[i] for i in range(2 * count)],
        )

    @T.inline
    def stage_slice(self, plan, accumulator, offset, block, slice_, thread):
        """A slice of a block's columns into a buffer."""
        groups = T.meta_var(plan.store_rows // 8)
        first = T.meta_var(slice_ * groups)
        for pair in T.unroll(groups // 2):
            self.stage_pair(plan, accumulator, offset, block, first + 2 * pair, 2, thread)
        if groups % 2 > 0:
            self.stage_pair(plan, accumulator, offset, block, first + groups - 1, 1, thread)

    @T.inline
    def store(self, plan, accumulator, place, thread):
        """A consumer's part of the tile at a place."""
        for block in T.unroll(plan.config.row_blocks):
            for slice_ in T.unroll(plan.slices):
                if thread.first:
                    T.ptx.cp.async_.bulk.wait_group.read(1)
                T.cuda.warpgroup_sync(2 + thread.consumer)
                offset = T.meta_var(
                    plan.store_offset + (2 * thread.consumer + self.turn[0]) * plan.store_bytes
                )
                self.stage_slice(plan, accumulator, offset, block, slice_, thread)
                T.ptx.fence.proxy.async_.shared__cta()
                T.cuda.warpgroup_sync(2 + thread.consumer)
                if thread.first:
                    block_row = T.meta_var(
                        place.n * plan.config.blocks
                        + thread.consumer * plan.config.row_blocks + block
                    )  # fmt: skip
                    column = T.meta_var(place.m * plan.config.block_m + slice_ * plan.store_rows)
                    row = T.meta_var(block_row * 64)
                    box = T.meta_var((column, row) if plan.workload.weight_left else (row, column))
                    T.ptx[store_tiled(2)](
                        T.address_of(self.y_map), *box, self.smem.ptr_to([offset])
                    )
                    T.ptx.cp.async_.bulk.commit_group()
                self.turn[0] = 1 - self.turn[0]
