"""What the kernel of a batched product on wgmma knows before it runs: tiles, memory, maps."""

from __future__ import annotations

from autoq.templates.arrays.element import element
from autoq.templates.cuda.batched.config import WARPGROUP_COLUMNS, BatchedWgmmaConfig
from autoq.templates.cuda.device.memory.ring import BARRIER_BYTES
from autoq.templates.cuda.device.memory.swizzle import swizzle_mode
from autoq.templates.cuda.device.memory.tma import MAX_BOX, row_values, tiled_map
from autoq.templates.cuda.device.mma.wgmma import K_BYTES, Wgmma
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.target import Target

ZERO_POINTS = 4
"""Words of the array of zero points: those of x and other, and two zeros."""
UNIT_BYTES = 16
"""What strides of tensor maps and places of bulk copies are multiples of."""
_LEAST_LINE, _MOST_LINE = 64, 128
_SUM_BYTES = 4
_LARGEST_FACTOR = 255
"""A byte less a zero point."""


def row_bytes(workload: BatchedGemm, order: str, dtype: str) -> int:
    """Bytes of a row of a matrix of an array."""
    return workload.shape_in(order)[-1] * element(dtype).bytes


def stores_boxes(workload: BatchedGemm) -> bool:
    """Whether rows of y are such that TMA stores boxes of them."""
    return row_bytes(workload, workload.y_order, workload.epilogue.out_dtype) % UNIT_BYTES == 0


class BatchedWgmmaPlan:
    """A batched product cut into the tiles of a configuration. Sizes count bytes unless said.

    Tensor cores compute y transposed: A is other, 64 of its columns of y from registers, and B is
    x, rows of a warpgroup in shared memory. A stage holds `line` bytes of each row of x, then a
    part of other for each 64 columns of y. Rows of y take the place of the stages in the end, or
    follow them where warpgroups go on to other columns.
    """

    def __init__(
        self, workload: BatchedGemm, config: BatchedWgmmaConfig, target: Target
    ) -> None:  # fmt: skip
        self.workload, self.config, self.target = workload, config, target
        self.size = element(workload.in_dtype).bytes
        self.out_size = element(workload.epilogue.out_dtype).bytes
        self.turned = workload.other_order.endswith("n")
        """Whether rows of other are values of k."""
        self.line = _LEAST_LINE if workload.k * self.size <= _LEAST_LINE else _MOST_LINE
        self.step_k = self.line // self.size
        """Values of k of a stage."""
        self.steps = ceil_div(workload.k, self.step_k)
        self.other_line = WARPGROUP_COLUMNS * self.size if self.turned else self.line
        self.part_bytes = WARPGROUP_COLUMNS * self.line
        """Bytes of a part of other."""
        self.stage_bytes = config.block_m * self.line + config.parts * self.part_bytes
        self.tiles_m = ceil_div(workload.m, config.block_m)
        self.tiles_n = ceil_div(workload.n, config.block_n)
        self.blocks = workload.products * self.tiles_m * self.tiles_n
        self.boxes = stores_boxes(workload)
        self.y_line = WARPGROUP_COLUMNS * self.out_size
        """Bytes of a row of y in a box: two parts of bytes where a warpgroup has so many."""
        if config.passes % 2 == 0 and self.out_size == 1:
            self.y_line *= 2
        self.run_bytes = self._run_bytes()
        y_bytes = config.row_groups * self.run_bytes
        if self.boxes:
            y_bytes = config.warpgroups * self.y_buffers * config.rows * self.y_line
        loaded = config.stages * self.stage_bytes
        self.y_at = 0 if config.passes == 1 else loaded
        self.sums_at = max(loaded, self.y_at + y_bytes)
        sums = 0 if workload.floating else config.block_m * _SUM_BYTES
        self.barriers_at = self.sums_at + sums
        self.smem_bytes = self.barriers_at + 2 * config.stages * BARRIER_BYTES

    def _run_bytes(self) -> int:
        """Bytes of a row group's rows of y, one behind the other from any byte on."""
        whole = self.config.rows * self.workload.n * self.out_size
        return ceil_div(whole + UNIT_BYTES, UNIT_BYTES) * UNIT_BYTES

    @property
    def y_buffers(self) -> int:
        """Boxes of y that a warpgroup has in shared memory."""
        return min(2, self.config.passes * WARPGROUP_COLUMNS * self.out_size // self.y_line)

    @property
    def other_box_parts(self) -> int:
        """Parts of other in a box; those whose rows are values of k have boxes of their own."""
        most = 1 if self.turned else MAX_BOX // WARPGROUP_COLUMNS
        return max(count for count in range(1, most + 1) if self.config.parts % count == 0)

    @property
    def small_sums(self) -> bool:
        """Whether sums of products of two bytes less their zero points stay below 2**22."""
        return self.workload.k * _LARGEST_FACTOR**2 < 1 << 22

    @property
    def atom(self) -> Wgmma:
        work = self.workload
        sums = "float32" if work.floating else "int32"
        shape = (WARPGROUP_COLUMNS, self.config.rows, K_BYTES // self.size)
        return Wgmma(shape, work.other_dtype, work.in_dtype, sums, a_from_registers=True)

    def map_of(self, order: str, dtype: str, line: int, rows: int) -> list[int]:
        """Arguments of ENCODE_TILED behind the address, for an array in an order.

        Of rank 4, from the innermost: columns, rows, heads, batches; a box is a line of some rows.
        """
        work = self.workload
        extents = dict(zip(order, work.shape_in(order), strict=True))
        inner, outer = order[-1], next(axis for axis in order[1:-1] if axis != "h")
        whole = extents[inner] * extents[outer]
        between = (extents[inner], whole)
        if order[1] != "h":
            between = (extents[inner] * work.heads, extents[inner])
        return tiled_map(
            dtype, (extents[inner], extents[outer], work.heads, work.batch),
            (*between, whole * work.heads),
            (row_values(dtype, line), rows, 1, 1), swizzle_mode(line),
        )  # fmt: skip
