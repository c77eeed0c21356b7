"""Which sides of a correction take part as a whole, by the share of their values that is kept."""

from __future__ import annotations

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Expr, PrimFunc

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cpu.frame import task_kernel
from autoq.templates.cpu.residual.select import WordLists
from autoq.templates.cpu.vector import loop, store
from autoq.templates.operators.residual_gemm import ResidualGemm

SIDES = "ab"
WHOLE = TensorSpec("whole", (2,), "int32")
"""1 for each side that takes part as a whole."""
STRIDE = TensorSpec("stride", (2,), "int32")
"""How many blocks along k a product of each side's lists takes at a time."""
_WORDS = 8
"""Words of a list that are worth to load and store the sums that they are added to."""


def choose_kernel(workload: ResidualGemm, lists: tuple[WordLists, WordLists]) -> PrimFunc:
    """Parameters: how many values each vector of a and of b keeps, crossover, WHOLE, STRIDE."""
    sizes = (workload.m * workload.k, workload.k * workload.n)
    kept = [next(spec for spec in side.specs if spec.name.endswith("_kept")) for side in lists]

    def emit(buffers: dict[str, Buffer], task: Expr) -> None:
        crossover = T.cast(buffers["crossover"][0], "float64")
        for place, (side, spec, size) in enumerate(zip(lists, kept, sizes, strict=True)):
            total = T.alloc_buffer((1,), "int32")
            store(total, 0, T.int32(0), 1)
            with loop(spec.shape[0]) as index:
                store(total, 0, total[0] + buffers[spec.name][index], 1)
            few = T.cast(total[0], "float64") <= crossover * T.float64(size)
            store(buffers[WHOLE.name], place, T.Select(few, T.int32(0), T.int32(1)), 1)
            visits = _WORDS * side.count * side.blocks
            stride = T.int64(visits) // T.max(T.cast(total[0], "int64"), T.int64(1))
            stride = T.max(T.min(stride, T.int64(side.blocks)), T.int64(1))
            store(buffers[STRIDE.name], place, T.cast(stride, "int32"), 1)

    crossover = TensorSpec("crossover", (1,), "float32")
    return task_kernel((*kept, crossover, WHOLE, STRIDE), 1, emit, "reduce_choice")


def is_whole(whole: Buffer, side: str) -> Expr:
    """Whether a side takes part as a whole."""
    return whole[SIDES.index(side)] != 0
