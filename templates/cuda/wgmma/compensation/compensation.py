"""A wgmma product whose tiles are corrected by lists and scaled before they are stored.

What the lists gather comes through the ring of stages, behind the operands of each tile, so that
sums are never written. The lists are there before the product (`device/residual/foreseen`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tvm.script import tirx as T

from autoq.templates.cuda.device.functions import DeviceFunction
from autoq.templates.cuda.device.launch.registers import register_budget
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.device.residual.bands import BAND, NOWHERE, STEP
from autoq.templates.cuda.device.residual.turned import turned_shape, turned_sizes
from autoq.templates.cuda.device.residual.value_steps import VALUE_STEP_BYTES
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.cuda.wgmma.compensation.add_source import ADD
from autoq.templates.cuda.wgmma.compensation.gather_source import GATHER
from autoq.templates.cuda.wgmma.compensation.stages_source import STAGES
from autoq.templates.cuda.wgmma.config import PipelineConfig, Shared
from autoq.templates.operators.gemm import Gemm
from autoq.templates.tensor_spec import TensorSpec

_PRODUCER_REGISTERS = 72
"""Of a thread of the warps that gather."""


@dataclass(frozen=True)
class Compensation:
    """What is added to a product [m, n] of integers, whose largest is `most`.

    length: of the residuals along k, which the product fills up; steps: of the lists of a and b;
    ahead: whether what they gather is brought to the L2 while a tile is multiplied.
    """

    m: int
    n: int
    length: int
    most: int
    bias: bool
    steps: tuple[int, int]
    config: PipelineConfig
    ahead: bool = False

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
    def functions(self) -> tuple[DeviceFunction, DeviceFunction, DeviceFunction]:
        """What producers, what consumers call, and what producers call before."""
        config = self.config
        sizes = {
            "M": self.m, "N": self.n, **turned_sizes(self.length), "BLOCK_M": config.block_m,
            "BLOCK_N": config.block_n, "STAGES": config.stages, "STAGE_BYTES": config.stage_bytes,
            "RECEIVERS": config.receivers, "MOST": self.most, "BIAS": self.bias,
        }  # fmt: skip
        space = DeviceNamespace("compensation", STAGES + GATHER + ADD, {}, sizes)
        gather, compensate, fetch = map(space.function, ("gather", "compensate", "fetch_ahead"))
        return gather, compensate, fetch

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


def matched_lists(compensation: Compensation | None, handles: Sequence[Any]) -> dict[str, Any]:
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


def pointers_of_lists(arrays: dict[str, Any]) -> list[Any]:
    """Of what producers read: residuals of b and of a, then steps and bands of a and of b."""
    names = ("b_turned", "a_panels", "steps_of_a", "bands_of_a", "steps_of_b", "bands_of_b")
    return [pointer(arrays, name) for name in names]


def compensation_of(
    product: Gemm, config: PipelineConfig, length: int, most: int, bias: bool,
    steps: tuple[int, int], ahead: bool = False,
) -> Compensation | None:  # fmt: skip
    """What the product's epilogue adds; None where its knobs leave no room for it."""
    if not fits(config, length):
        return None
    return Compensation(product.m, product.n, length, most, bias, steps, config, ahead)
