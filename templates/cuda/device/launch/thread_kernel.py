"""A CUDA PrimFunc of any number of parameters whose body is emitted for one thread."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.script import tirx as T
from tvm.script.ir_builder import IRBuilder
from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.search.space import Space
from autoq.templates.arrays.storage import is_four_bit, moved_as, stored
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.device.functions import DeviceFunction
from autoq.templates.cuda.device.launch.dependent_launch import can_overlap, overlapping
from autoq.templates.cuda.device.launch.mapped import Mapped
from autoq.templates.operators.add import Add
from autoq.templates.operators.concat import Concat
from autoq.templates.operators.dequantize import Dequantize
from autoq.templates.operators.pool2d import Pool2d
from autoq.templates.operators.quantize import Quantize
from autoq.templates.target import Target
from autoq.templates.workload import Constants

Body = Callable[[Sequence[Any], Any, Any], None]
"""Emits statements, given the parameters' pointers, the block's and the thread's number."""

Build = Callable[[Any, Any, Target], PrimFunc]
"""Makes the kernel of a workload and configuration."""


class Start(enum.Enum):
    """What a kernel does first of all, where launches overlap; its body does the rest of it.

    It waits for the kernels before it and lets the next one start as soon as every block of its own
    runs, it waits alone, or neither.
    """

    WAITS_AND_LETS_GO = "waits and lets go"
    WAITS = "waits"
    AT_ONCE = "at once"


@dataclass(frozen=True)
class ThreadConfig:
    """Configuration of a kernel whose only choice is its block.

    threads: most threads of a block; a kernel whose work does not split evenly takes fewer.
    """

    threads: int = 256


def thread_space(workload: object, target: Target) -> Space[ThreadConfig]:
    """Every block size of a `ThreadConfig`."""
    return Space(ThreadConfig, {"threads": (64, 128, 256, 512)})


def thread_default(workload: object, target: Target) -> ThreadConfig:
    """256 threads: eight blocks of it fill a multiprocessor's 2048 threads."""
    return ThreadConfig()


def pack_scalars_operand(
    workload: Pool2d | Add | Concat | Quantize | Dequantize, config: object, constants: Constants
) -> tuple[np.ndarray, ...]:
    """The `scalars` parameter alone, float32."""
    return (np.ascontiguousarray(constants["scalars"], np.float32),)


def packed_scalars_operand(
    workload: Pool2d | Add | Concat | Quantize | Dequantize, config: object
) -> tuple[TensorSpec, ...]:
    """What `pack_scalars_operand` gives."""
    return workload.constants


def scalars_template(
    name: str, version: int, computes: Callable[[Any, Target], bool], build: Build
) -> Template:
    """A template of one thread's code whose only constants are a workload's scalars."""
    return Template(
        name, version, computes, thread_space, thread_default, build, pack_scalars_operand,
        packed_scalars_operand,
        tunable=False,
    )  # fmt: skip


def scalars_parameter(workload: Pool2d | Add | Quantize | Dequantize) -> TensorSpec:
    """The float32 vector of a workload's SCALARS."""
    return TensorSpec("scalars", (len(workload.SCALARS),), "float32")


def indexable(*shapes: tuple[int, ...]) -> bool:
    """Whether every element of arrays of these shapes has an int32 index."""
    return all(0 < math.prod(shape) < 1 << 31 for shape in shapes)


def whole_bytes(row: int, *dtypes: str) -> bool:
    """Whether rows of `row` values of each dtype end with a byte."""
    return row % 2 == 0 or not any(map(is_four_bit, dtypes))


def thread_kernel(
    parameters: Sequence[TensorSpec | Mapped],
    blocks: int,
    threads: int,
    target: Target,
    body: Body,
    cluster: int = 1,
    start: Start = Start.WAITS_AND_LETS_GO,
    together: int | None = None,
) -> PrimFunc:
    """A PrimFunc that launches `blocks` blocks of `threads` threads, each running `body`.

    Every `cluster` neighbouring blocks reach each other's shared memory. together: blocks
    that the registers of a multiprocessor have room for at least. A body that sets its warps'
    registers (setmaxnreg) needs it: ptxas ignores that where it does not know how many registers a
    thread is launched with. Of mapped parameters the body gets the map's address.
    """
    overlaps = can_overlap(target)
    with IRBuilder() as construction, builder.prim_func():
        builder.func_name("main")
        buffers = []
        for parameter in parameters:
            spec = parameter.spec if isinstance(parameter, Mapped) else parameter
            handle = builder.arg(spec.name, builder.handle())
            array = stored(spec.shape, spec.dtype)
            buffers.append(builder.match_buffer(handle, *array, align=16))
        pointers = [
            parameter.encoded(buffer.data) if isinstance(parameter, Mapped) else _pointer(buffer)
            for parameter, buffer in zip(parameters, buffers, strict=True)
        ]
        builder.device_entry()
        with ExitStack() as attributes:
            if together is not None:
                bound = {"tirx.launch_bounds_min_blocks_per_sm": together}
                attributes.enter_context(builder.attr(bound))
            if cluster > 1:
                rank = builder.cta_id_in_cluster([cluster])
                block = builder.cluster_id([blocks // cluster]) * cluster + rank
            else:
                block = builder.cta_id([blocks])
            thread = builder.thread_id([threads])
            if overlaps and start is not Start.AT_ONCE:
                builder.evaluate(T.ptx.griddepcontrol.wait())
                if start is Start.WAITS_AND_LETS_GO:
                    builder.evaluate(T.ptx.griddepcontrol.launch_dependents())
            body(pointers, block, thread)
    kernel = construction.get()
    return overlapping(kernel) if overlaps else kernel


def _pointer(buffer: Any) -> Any:
    """The address of a buffer's first element, as `moved_as` says."""
    dtype = moved_as(str(buffer.dtype))
    if dtype == buffer.dtype:
        return buffer.data
    elements = math.prod(int(extent) for extent in buffer.shape)
    return builder.decl_buffer((elements,), dtype, data=buffer.data).ptr_to([0])


def items_kernel(
    parameters: Sequence[TensorSpec],
    items: int,
    threads: int,
    target: Target,
    body: Body,
    start: Start = Start.WAITS_AND_LETS_GO,
) -> PrimFunc:
    """`thread_kernel` with a thread for each of `items`, and some that have none."""
    blocks = blocks_for(items, threads)
    return thread_kernel(parameters, blocks, threads, target, body, start=start)


def call(function: DeviceFunction, *arguments: Any) -> None:
    """Emit a call of a device function that returns nothing."""
    builder.evaluate(T.cuda.func_call(function.name, *arguments, source_code=function.source))


def local_words(words: int) -> Any:
    """Pointer to `words` uint32 registers of the thread."""
    return builder.alloc_buffer((words,), "uint32", scope="local").data


def blocks_for(items: int, threads: int) -> int:
    """Blocks of `threads` threads that cover `items`."""
    return -(-items // threads)
