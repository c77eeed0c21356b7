"""What warps of the producer that load nothing do while a wgmma product is multiplied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.script import tirx as T

from autoq.templates.cuda.device.functions import DeviceFunction
from autoq.templates.tensor_spec import TensorSpec

WARPS = 3
"""Of the producer warpgroup beside the one that loads stages."""

REGISTERS = 56
"""Of a thread of the producer warpgroup."""


@dataclass(frozen=True)
class Meanwhile:
    """Work of its own, beside that of a product that is weighed and has no other loads.

    function: takes the scales of rows and columns, pointers of `reads` and of `writes`, its shared
    memory, which of a block's `WARPS` a warp is, the block, and how many of these there are. It has
    no barriers that others wait at. reads, writes: four arrays and two; smem_bytes: of a block.
    """

    function: DeviceFunction
    reads: tuple[TensorSpec, ...]
    writes: tuple[TensorSpec, ...]
    smem_bytes: int


def matched(meanwhile: Meanwhile | None, handles: Sequence[Any]) -> list[Any]:
    """Buffers of what is read and written; none without handles."""
    if meanwhile is None:
        return []
    specs = (*meanwhile.reads, *meanwhile.writes)
    return [
        T.match_buffer(handle, spec.shape, spec.dtype, align=16)
        for handle, spec in zip(handles, specs, strict=True)
    ]


@T.inline
def work_meanwhile(plan, weighed, beside, smem, warp, block, rank):
    """A warp of the producer: its part of the work."""
    T.cuda.func_call(
        plan.meanwhile.function.name,
        weighed[0].ptr_to([0]),
        weighed[1].ptr_to([0]),
        beside[0].ptr_to([0, 0]),
        beside[1].ptr_to([0, 0]),
        beside[2].ptr_to([0]),
        beside[3].ptr_to([0]),
        beside[4].ptr_to([0, 0]),
        beside[5].ptr_to([0, 0, 0]),
        smem.ptr_to([plan.meanwhile_offset]),
        warp,
        block * plan.config.grid.cluster + rank,
        plan.grid * plan.config.grid.cluster,
        source_code=plan.meanwhile.function.source,
    )
