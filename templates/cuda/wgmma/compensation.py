"""A wgmma product whose tiles are corrected by lists and scaled before they are stored.

What the lists gather comes through the ring of stages, behind the operands of each tile, so that
sums are never written. The lists are there before the product: see `device/residual/foreseen`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tvm.script import tirx as T

from autoq.templates.cuda.device.functions import DeviceFunction
from autoq.templates.cuda.device.launch.dependent_launch import (
    start_successor,
    wait_for_predecessors,
)
from autoq.templates.cuda.device.launch.place import TilePlace
from autoq.templates.cuda.device.launch.registers import register_budget
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.memory.ring import RingCursor, RingPosition
from autoq.templates.cuda.device.residual.bands import BAND, NOWHERE, STEP
from autoq.templates.cuda.device.residual.turned import turned_shape, turned_sizes
from autoq.templates.cuda.device.residual.value_steps import VALUE_STEP_BYTES
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.cuda.wgmma.compensation_source import COMPENSATION
from autoq.templates.cuda.wgmma.config import PipelineConfig, Shared
from autoq.templates.cuda.wgmma.kernel.pieces import walk_of
from autoq.templates.cuda.wgmma.kernel.producer import produce
from autoq.templates.operators.gemm import Gemm
from autoq.templates.tensor_spec import TensorSpec

_PRODUCER_REGISTERS = 72
"""Of a thread of the warps that gather."""

_BARRIER = 3
"""Named barrier of the producer's warps."""


@dataclass(frozen=True)
class Compensation:
    """What is added to a product [m, n] of integers, whose largest is `most`.

    length: of the residuals along k, which the product fills up; steps: of the lists of a and b.
    """

    m: int
    n: int
    length: int
    most: int
    bias: bool
    steps: tuple[int, int]
    config: PipelineConfig

    @property
    def panels(self) -> TensorSpec:
        """Residuals of a: of each k a tile's rows, g and g + 8 of each 16 beside each other."""
        shape = ceil_div(self.m, self.config.block_m), self.length, self.config.block_m
        return TensorSpec("a_panels", shape, "int8")

    @property
    def arrays(self) -> tuple[TensorSpec, ...]:
        """What is read: scales, bias, residuals, then entries and bands of a and of b."""
        found = [TensorSpec("a_scale", (self.m,), "float32"),
                 TensorSpec("b_scale", (self.n,), "float32")]  # fmt: skip
        if self.bias:
            found.append(TensorSpec("bias", (self.n,), "float32"))
        found += [TensorSpec("b_turned", turned_shape(self.n, self.length), "int8"),
                  self.panels]  # fmt: skip
        for side, extent, steps in zip("ab", (self.m, self.n), self.steps, strict=True):
            found += [
                TensorSpec(f"steps_of_{side}", (steps, VALUE_STEP_BYTES), "int8"),
                TensorSpec(f"bands_of_{side}", (ceil_div(extent, BAND), 2), "int32"),
            ]
        return tuple(found)

    @cached_property
    def functions(self) -> tuple[DeviceFunction, DeviceFunction]:
        """What producers and what consumers call."""
        config = self.config
        sizes = {
            "M": self.m, "N": self.n, **turned_sizes(self.length), "BLOCK_M": config.block_m,
            "BLOCK_N": config.block_n, "STAGES": config.stages, "STAGE_BYTES": config.stage_bytes,
            "RECEIVERS": config.receivers, "MOST": self.most, "BIAS": self.bias,
        }  # fmt: skip
        space = DeviceNamespace("compensation", COMPENSATION, {}, sizes)
        return space.function("gather"), space.function("compensate")

    @property
    def registers(self) -> Any:
        """What producers and consumers have."""
        config = self.config
        return register_budget(config.consumers, config.blocks_per_unit, _PRODUCER_REGISTERS)


def fits(config: PipelineConfig, length: int) -> bool:
    """Whether a product of these knobs can be compensated, for k of so many values."""
    together = config.cooperative and config.consumers == 2 and config.m_blocks == 1
    whole = config.parts == 1 and not config.stream_k and not config.tail_stages
    loads = not config.weights_stay and not config.early_loads
    columns = config.channels == 4 and config.block_n % 64 == 0 and config.block_n <= 256
    shared = config.receivers == 1 or (
        config.receivers == 2 and config.grid.shared is Shared.WEIGHTS
    )
    own = config.block_m // BAND
    stage = (own * 64 + 4 * config.block_m) * STEP + (own + 4) * BAND * STEP
    return (
        together and whole and loads and columns and shared and length < NOWHERE
        and config.blocks_per_unit == 1 and stage <= config.stage_bytes
    )  # fmt: skip


def matched(compensation: Compensation | None, handles: Sequence[Any]) -> dict[str, Any]:
    """Buffers of `arrays` by name; none without them."""
    if compensation is None:
        return {}
    there = [handle for handle in handles if handle is not None]
    return {
        spec.name: T.match_buffer(handle, spec.shape, spec.dtype, align=16)
        for handle, spec in zip(there, compensation.arrays, strict=True)
    }


def pointer(arrays: dict[str, Any], name: str) -> Any:
    """Of an array's first element; of one that is not there the row scales stand in."""
    array = arrays.get(name, arrays["a_scale"])
    return array.ptr_to([0] * len(array.shape))


@T.inline
def produce_with_lists(plan, smem, ring, x_map, weight, arrays, block, rank, warp):
    """Producer warpgroup: one thread loads operands, then all warps gather for each tile's lists.

    They meet before and behind it, so that nobody waits for a stage more than once around the ring
    ahead.
    """
    head = T.meta_var(RingPosition(plan.config.stages))
    issued = T.meta_var(RingPosition(plan.config.stages))
    head.start(0)
    walk = T.meta_var(walk_of(plan))
    walk.start(block)
    wait_for_predecessors()
    start_successor()
    while walk.more:
        m, n = plan.tile(walk.tile, rank)
        if (warp == 0) & (T.cuda.elect_sync() != 0):
            place = T.meta_var(TilePlace(m, n, rank))
            issued.stage = head.stage
            issued.phase = head.phase
            cursor = T.meta_var(RingCursor(ring, issued))
            produce(plan, smem, cursor, x_map, weight, place, walk, walk.tile == block)
        head.skip(plan.block_stages)
        T.ptx.bar.sync(T.uint32(_BARRIER), T.uint32(128))
        gather = T.meta_var(plan.compensation.functions[0])
        gathered: T.int32 = T.cuda.func_call(
            gather.name, smem.ptr_to([0]), ring.full(0), pointer(arrays, "b_turned"),
            pointer(arrays, "a_panels"), pointer(arrays, "steps_of_a"),
            pointer(arrays, "bands_of_a"), pointer(arrays, "steps_of_b"),
            pointer(arrays, "bands_of_b"), m, n, head.stage, head.phase,
            source_code=gather.source, return_type="int32",
        )  # fmt: skip
        T.ptx.bar.sync(T.uint32(_BARRIER), T.uint32(128))
        head.skip(gathered)
        walk.advance()
    if plan.receivers > 1:  # noqa: SIM102
        if (warp == 0) & (T.cuda.elect_sync() != 0):
            ring.wait_until_left(head)


@T.inline
def compensate_tile(plan, accumulator, smem, cursor, arrays, y, rank, place):
    """Consumer warpgroup: add the lists to its rows of a tile, whose sums it holds, and store."""
    compensate = T.meta_var(plan.compensation.functions[1])
    passed: T.int32 = T.cuda.func_call(
        compensate.name, accumulator.ptr_to([0]), smem.ptr_to([0]), cursor.ring.full(0),
        pointer(arrays, "a_scale"), pointer(arrays, "b_scale"), pointer(arrays, "bias"),
        pointer(arrays, "bands_of_a"), pointer(arrays, "bands_of_b"), y.ptr_to([0]),
        place.m, place.n, rank, cursor.at.stage, cursor.at.phase,
        source_code=compensate.source, return_type="int32",
    )  # fmt: skip
    cursor.at.skip(passed)


def compensation_of(
    product: Gemm, config: PipelineConfig, length: int, most: int, bias: bool,
    steps: tuple[int, int],
) -> Compensation | None:  # fmt: skip
    """What the product's epilogue adds; None where its knobs leave no room for it."""
    if not fits(config, length):
        return None
    return Compensation(product.m, product.n, length, most, bias, steps, config)
