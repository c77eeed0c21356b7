"""Which of a wgmma kernel's arrays there are, and where those of each of its copies lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.script import tirx as T

from autoq.templates.arrays.element import element
from autoq.templates.cuda.device.functions import device_function
from autoq.templates.cuda.device.launch.grid_range import range_words
from autoq.templates.cuda.wgmma.plan import PipelinePlan
from autoq.templates.epilogue.cuda.parameters.arrays import RangeArrays


def own(array: Any, size: int, copy: Any) -> tuple[Any, ...]:
    """What `T.decl_buffer` takes for the part of an array that a copy has."""
    return (size,), array.dtype, array.data, None, copy * size


def output_of_copy(copy: Any, outputs: Sequence[Any]) -> Any:
    """How many elements the output of a copy lies behind the first one's."""
    if isinstance(copy, int):
        return 0
    first, *others = (
        T.reinterpret("int64", T.address_of(array[(0,) * len(array.shape)])) for array in outputs
    )
    behind: Any = T.int64(0)
    for number, other in enumerate(others, 1):
        behind = T.if_then_else(copy == number, other - first, behind)
    size = element(str(outputs[0].dtype)).bytes
    return behind if size == 1 else T.truncdiv(behind, T.int64(size))


def optional(handle: Any, shape: Sequence[int], dtype: str | None, otherwise: Any) -> Any:
    """The buffer of a parameter, or another one where a kernel has no such parameter."""
    return otherwise if handle is None else T.match_buffer(handle, shape, dtype, align=16)


def matched_spaces(plan: PipelinePlan, handles: Sequence[Any]) -> list[Any]:
    """Buffers of the plan's workspaces, none where it has none."""
    spaces = [space.spec for space in plan.workspaces]
    return [
        T.match_buffer(handle, spec.shape, spec.dtype, align=16)
        for handle, spec in zip(handles, spaces, strict=False)
    ]


def matched_range(plan: PipelinePlan, handles: Sequence[Any]) -> RangeArrays | None:
    """What is written besides outputs that are quantised by their range; None where they are not.

    handles: of their scale and zero point, and of the words of the grid.
    """
    *numbers, words = handles
    if words is None:
        return None
    shape = range_words(plan.grid).spec.shape
    return RangeArrays(*matched_numbers(numbers), T.match_buffer(words, shape, "uint64", align=16))


def matched_expansion(plan: PipelinePlan, handles: Sequence[Any]) -> list[Any]:
    """Buffers of what an expansion reads, none where there is none."""
    expansion = plan.expansion
    specs = (expansion.spans, expansion.places) if expansion else ()
    return [
        T.match_buffer(handle, spec.shape, spec.dtype, align=16)
        for handle, spec in zip(handles, specs, strict=False)
    ]


def matched_numbers(handles: Sequence[Any]) -> list[Any]:
    """Buffers of the numbers of a run, none where the epilogue has none."""
    there = [handle for handle in handles if handle is not None]
    return [T.match_buffer(handle, (1,), "float32", align=4) for handle in there]


READ_NUMBERS = device_function("read_numbers", r"""
__device__ __forceinline__ void read_numbers_@(float* registers, const float* first,
                                               const float* second) {
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(registers[0]) : "l"(first) : "memory");
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(registers[1]) : "l"(second) : "memory");
}
""")  # fmt: skip
"""read(registers, first, second): two numbers. ptxas moves other loads of what a kernel only reads
in front of its wait for the kernel that writes it."""


@T.inline
def read_numbers(registers, numbers):
    """Keep the two numbers of a run."""
    T.cuda.func_call(
        READ_NUMBERS.name, registers.ptr_to([0]), numbers[0].ptr_to([0]), numbers[1].ptr_to([0]),
        source_code=READ_NUMBERS.source,
    )  # fmt: skip


def absent(plan: PipelinePlan) -> tuple[str, ...]:
    """The parameters of `build_pipeline` that a kernel has not."""
    epilogue = plan.epilogue
    present = {
        "residual_ptr": epilogue.residual_dtype is not None,
        "scale_ptr": epilogue.out_dtype != "int32",
        "scalars_ptr": epilogue.out_dtype != "int32",
        "row_scale_ptr": epilogue.row_scale,
        "x_scale_ptr": epilogue.dynamic,
        "x_zero_point_ptr": epilogue.dynamic,
        "y_scale_ptr": epilogue.by_range,
        "y_zero_point_ptr": epilogue.by_range,
        "ranges_ptr": epilogue.by_range,
        "table_ptr": plan.bounded,
        "arrived_ptr": bool(plan.workspaces),
        "parts_ptr": bool(plan.workspaces),
        "m_weight_ptr": plan.weighing is not None,
        "n_weight_ptr": plan.weighing is not None,
        "m_parts_ptr": plan.weighing is not None,
        "n_parts_ptr": plan.weighing is not None,
        "spans_ptr": plan.expansion is not None,
        "places_ptr": plan.expansion is not None,
        "second_ptr": plan.copies > 1,
        "third_ptr": plan.copies > 2,
    }
    return tuple(name for name, there in present.items() if not there)
