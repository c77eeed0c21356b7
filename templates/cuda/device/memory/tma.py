"""TMA: instructions and tensor-map arguments (CUDA driver API, Tensor Map Object Access).

A map's dimensions run from the innermost; byte strides leave out the innermost; every base
address and stride is a multiple of 16 bytes. Elements outside the tensor arrive as zeros, and
always count towards a barrier's transaction bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.script import tirx as T

from autoq.templates.arrays.element import element
from autoq.templates.arrays.tensor_spec import TensorSpec

ENCODE_TILED = "runtime.cuTensorMapEncodeTiled"
ENCODE_IM2COL = "autoq.cuTensorMapEncodeIm2col"

MAX_BOX = 256
"""Largest extent of a tiled box, element strides included."""

MAX_ELEMENT_STRIDE = 8
MAX_IM2COL_PIXELS = 1024
MAX_IM2COL_CORNER = 128
"""Corners of a rank-4 im2col box are 8-bit signed, filter offsets 8-bit unsigned."""

LOAD_IM2COL_4D = (
    "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
)

LOAD_BULK = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
"""The instruction that loads consecutive bytes: smem, address, bytes, barrier; multiples of 16."""

_L2_PROMOTION_128B = 2

# L2 cache policy of lines that go before all others, as CUTLASS has it (TMA::CacheHintSm90).
_EVICT_FIRST = 0x12F0000000000000


@dataclass(frozen=True)
class Delivery:
    """Where a load goes and what the L2 cache does then.

    blocks: of a cluster, that all receive it; once: the cache gives these lines up first.
    """

    blocks: int = 1
    once: bool = False


def load_tiled(rank: int) -> str:
    """The instruction that loads a box of a tiled map: smem, map, coordinates, barrier."""
    return f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes"


def tma_load(instruction: str, to: Delivery, *operands: Any) -> Any:
    """The call of a load into this block, or at the same places into all that receive it."""
    if to.blocks > 1:
        instruction = f"{instruction}.multicast::cluster"
        operands = (*operands, T.uint16((1 << to.blocks) - 1))
    if to.once:
        instruction = f"{instruction}.L2::cache_hint"
        operands = (*operands, T.uint64(_EVICT_FIRST))
    return T.ptx[instruction](*operands)


def prefetch_map(tensor_map: Any) -> Any:
    """The call that fetches a map itself, so that the first load through it finds it near."""
    return T.ptx["prefetch.tensormap"](T.address_of(tensor_map))


def store_tiled(rank: int) -> str:
    """The instruction that stores a box of a tiled map: map, coordinates, smem."""
    return f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group"


def row_values(dtype: str, row_bytes: int) -> int:
    """Values of a dtype in a row of shared memory, as boxes and coordinates count them."""
    return row_bytes // element(dtype).bytes


def tiled_map(
    dtype: str,
    dims: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    swizzle: int,
    element_strides: Sequence[int] | None = None,
) -> list[int]:
    """Arguments of ENCODE_TILED behind (map, dtype, rank, address).

    All count values of the dtype. box counts them before element strides: n values at stride s
    need an extent of n * s.
    """
    steps = list(element_strides or [1] * len(dims))
    if not len(dims) == len(box) == len(steps) == len(strides) + 1:
        raise ValueError(f"ranks differ: {dims}, {strides}, {box}, {steps}")
    byte_strides = [stride * element(dtype).bytes for stride in strides]
    return [*dims, *byte_strides, *box, *steps, 0, swizzle, _L2_PROMOTION_128B, 0]


def nhwc_strides(h: int, w: int, c: int) -> list[int]:
    """Values between neighbours along w, h and n of an NHWC tensor."""
    return [c, w * c, h * w * c]


def im2col_map(
    x: TensorSpec,
    filter_shape: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int, int, int],
    dilation: tuple[int, int],
    channels: int,
    pixels: int,
    swizzle: int,
) -> list[int]:
    """Arguments of ENCODE_IM2COL behind (map, dtype, rank, address).

    x is NHWC, padding (top, left, bottom, right); channels counts values. The bounding box holds
    the first filter tap of every output pixel: from -padding to size - 1 + padding - reach of the
    filter.
    """
    n, h, w, c = x.shape
    top, left, bottom, right = padding
    lower = [-left, -top]
    upper = [
        right - (filter_shape[1] - 1) * dilation[1],
        bottom - (filter_shape[0] - 1) * dilation[0],
    ]
    steps = [1, stride[1], stride[0], 1]
    strides = [stride * x.element.bytes for stride in nhwc_strides(h, w, c)]
    return [c, w, h, n, *strides, *lower, *upper, channels, pixels, *steps, swizzle]
