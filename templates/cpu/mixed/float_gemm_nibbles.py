"""Products of floats with weights of 4 bits on any CPU, in float32.

A weight stays two values a byte until it is in a register. There a mask and a conversion make a
vector of float32 of it, which all rows of a register tile are multiplied with: both run beside the
multiply-adds, so that with four rows they take no time of their own.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from tvm.tirx import Buffer, PrimFunc

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cpu.mixed.config import (
    MixedCpuConfig,
    block_rows,
    depths,
    is_plain,
    mixed_space,
)
from autoq.templates.cpu.mixed.kernel import build_products
from autoq.templates.cpu.mixed.nibble_products import multiply_words, scale_rows
from autoq.templates.cpu.mixed.nibbles import VALUES, pack_nibbles, packed_nibbles, takes
from autoq.templates.cpu.mixed.tiles import AddProducts, MixedTiling, Turn
from autoq.templates.cpu.vector import vector_lanes
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_MOST_VECTORS = 6
_WIDENING = 1.2
"""Rows that take as long to multiply as a word to widen: a row alone runs at 0.6 of four's rate."""


def matches(workload: object, target: Target) -> bool:
    """Plain products of floats and 4 bits, in groups of whole words of eight values."""
    return is_plain(workload, target) and isinstance(workload, FloatGemm) and takes(workload)


def _depths(workload: FloatGemm) -> tuple[int, ...]:
    """Whole words; the last turn of a row without groups is padded to one."""
    if workload.group:
        return depths(workload)
    return tuple(sorted({-(-depth // VALUES) * VALUES for depth in depths(workload)}))


def default(workload: FloatGemm, target: Target) -> MixedCpuConfig:
    """Rows that leave few over, by as many vectors as leave registers for words and masks.

    There are no more vectors than there are for each core.
    """
    lanes = vector_lanes(target)
    tallest, sums = (8, 16) if target.avx512 else (5, 8)

    def cost(rows: int) -> float:
        block = block_rows(workload, rows)
        return -(-workload.m // block) * -(-block // rows) * (rows + _WIDENING)

    tile_rows = min(range(1, min(tallest, workload.m) + 1), key=cost)
    each = -(-workload.n // (lanes * target.units))
    vectors = max(1, min(_MOST_VECTORS, -(-sums // tile_rows), each))
    deep = max(depth for depth in _depths(workload) if depth <= 128)
    rows = block_rows(workload, tile_rows)
    return MixedCpuConfig(lanes, tile_rows, vectors, rows, deep)


def space(workload: FloatGemm, target: Target) -> Space[MixedCpuConfig]:
    """Tiles that fit the registers, over blocks of several sizes."""
    return mixed_space(workload, target, default(workload, target), _depths(workload))


def _tiling(workload: FloatGemm, config: MixedCpuConfig) -> MixedTiling:
    return MixedTiling(
        workload, config.lanes, config.tile_rows, config.vectors, config.block_rows, config.depth,
        VALUES,
    )  # fmt: skip


def build(workload: FloatGemm, config: MixedCpuConfig, target: Target) -> PrimFunc:
    """The kernel; parameters x, what `packed` says, y. Tasks share rows or columns."""
    tiling = _tiling(workload, config)

    def products(buffers: Mapping[str, Buffer], x: Buffer) -> AddProducts:
        totals = scale_rows(tiling, x)

        def add(turn: Turn, sums: Buffer) -> None:
            multiply_words(tiling, buffers, turn, x, totals, sums)

        return add

    return build_products(tiling, packed(workload, config), target, products)


def pack(
    workload: FloatGemm, config: MixedCpuConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """Words of eight values of k, scales and zero points of groups, bias, by tiles of columns."""
    return pack_nibbles(_tiling(workload, config), constants)


def packed(workload: FloatGemm, config: MixedCpuConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return packed_nibbles(_tiling(workload, config))


TEMPLATE = Template(
    "float_gemm_nibbles", 1, matches, space, default, build, pack, packed,
    keeps_nibbles=True, preference=10,
)  # fmt: skip
"""Products with weights of 4 bits, widened in registers."""
