"""Where rows of x come from: a matrix [m, k], or patches of images that nobody writes to memory.

Both bring a step of 128 bytes of some rows to shared memory by one instruction of TMA.
"""

from __future__ import annotations

from typing import Any, Protocol

from tvm.script import tirx as T

from autoq.templates.cuda.device.memory.swizzle import swizzle_mode
from autoq.templates.cuda.device.memory.tma import (
    ENCODE_IM2COL,
    ENCODE_TILED,
    LOAD_IM2COL_4D,
    im2col_map,
    load_tiled,
    tiled_map,
)
from autoq.templates.cuda.mixed.wgmma.config import STEP_BYTES, MixedConfig
from autoq.templates.cuda.mixed.wgmma.windows import Windows
from autoq.templates.operators.float_conv2d import FloatConv2d
from autoq.templates.operators.float_gemm import FloatGemm


class Rows(Protocol):
    """How rows of x are addressed.

    shape: of x in memory; y_shape: of y; moved: bytes that a kernel has to read and write.
    encode, rank: of the tensor map; instruction: that loads its boxes.
    """

    shape: tuple[int, ...]
    y_shape: tuple[int, ...]
    encode: str
    rank: int
    instruction: str

    @property
    def moved(self) -> int: ...

    def map(self, config: MixedConfig, step_k: int) -> list[int]:
        """Arguments of the map: boxes of a step and the rows that a block loads."""
        ...

    def coordinates(self, step: Any, row: Any, place: Any, step_k: int) -> tuple[Any, ...]:
        """Where a box that begins at a row and a step of k of a tile's place lies in the map."""
        ...

    def offsets(self, step: Any) -> tuple[Any, ...]:
        """What the instruction takes behind its barrier."""
        ...


class MatrixRows:
    """Rows of x [m, k], or of one for each product of a batch."""

    encode = ENCODE_TILED

    def __init__(self, workload: FloatGemm) -> None:
        self.workload = workload
        self.shape, self.y_shape = workload.inputs[0].shape, workload.y_shape
        self.rank = 3 if workload.batch > 1 else 2
        self.instruction = load_tiled(self.rank)

    @property
    def moved(self) -> int:
        # Rules of a space make rows for every configuration and ask for none of this.
        return self.workload.bytes

    def map(self, config: MixedConfig, step_k: int) -> list[int]:
        work = self.workload
        box, dims, strides = [step_k, config.loaded_rows], [work.k, work.m], [work.k]
        if work.batch > 1:
            box, dims, strides = [*box, 1], [*dims, work.batch], [*strides, work.k * work.m]
        return tiled_map(work.in_dtype, dims, strides, box, swizzle_mode(STEP_BYTES))

    def coordinates(self, step: Any, row: Any, place: Any, step_k: int) -> tuple[Any, ...]:
        return (step * step_k, row, place.product)[: self.rank]

    def offsets(self, step: Any) -> tuple[Any, ...]:
        return ()


class SharedRows:
    """Rows of one x [m, k], which all products of a batch multiply."""

    encode, rank, instruction = ENCODE_TILED, 2, load_tiled(2)

    def __init__(self, one: FloatGemm, moved: int) -> None:
        self._matrix, self.moved = MatrixRows(one), moved
        self.shape, self.y_shape = one.inputs[0].shape, one.y_shape

    def map(self, config: MixedConfig, step_k: int) -> list[int]:
        return self._matrix.map(config, step_k)

    def coordinates(self, step: Any, row: Any, place: Any, step_k: int) -> tuple[Any, ...]:
        return self._matrix.coordinates(step, row, place, step_k)

    def offsets(self, step: Any) -> tuple[Any, ...]:
        return ()


class PatchRows:
    """Patches of images, a row for each output pixel: whole steps of channels, tap by tap.

    Of several groups a tile has a window of channels. Channels behind the image's last are 0; the
    weights of other channels that a filter does not read are, and those behind the last tap.
    """

    encode, rank, instruction = ENCODE_IM2COL, 4, LOAD_IM2COL_4D

    def __init__(self, conv: FloatConv2d, step_k: int) -> None:
        self.conv, self.moved = conv, conv.bytes
        self.shape, self.y_shape = conv.inputs[0].shape, conv.y_shape
        self.windows = Windows(conv, step_k)

    def map(self, config: MixedConfig, step_k: int) -> list[int]:
        conv = self.conv
        return im2col_map(
            conv.inputs[0], (conv.r, conv.s), conv.stride, conv.padding, conv.dilation, step_k,
            config.loaded_rows, swizzle_mode(STEP_BYTES),
        )  # fmt: skip

    def _tap(self, step: Any) -> Any:
        """The tap of a step; the last one for those behind it."""
        return T.min(step // self.windows.steps, self.conv.r * self.conv.s - 1)

    def coordinates(self, step: Any, row: Any, place: Any, step_k: int) -> tuple[Any, ...]:
        conv = self.conv
        return (
            self.windows.first(place.n) + (step - self._tap(step) * self.windows.steps) * step_k,
            row % conv.q * conv.stride[1] - conv.padding[1],
            row // conv.q % conv.p * conv.stride[0] - conv.padding[0],
            row // (conv.p * conv.q),
        )

    def offsets(self, step: Any) -> tuple[Any, ...]:
        conv, tap = self.conv, self._tap(step)
        return (
            T.cast(tap % conv.s * conv.dilation[1], "uint16"),
            T.cast(tap // conv.s * conv.dilation[0], "uint16"),
        )
