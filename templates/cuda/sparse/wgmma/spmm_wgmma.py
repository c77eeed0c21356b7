"""Sparse products of vectors of 16 to 128 rows by wgmma: one block for a vector row and a panel.

Integers of 8 or 4 bits, those of the sparse side also of 16, or floats of 16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.search.space import Space
from autoq.templates.arrays.element import element
from autoq.templates.arrays.storage import is_four_bit
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.device.launch.thread_kernel import call, indexable, thread_kernel
from autoq.templates.cuda.device.mma.wgmma import Wgmma
from autoq.templates.cuda.sparse.functions import device_functions, rows_as_conv2d
from autoq.templates.cuda.sparse.spmm_panel import panel_fits
from autoq.templates.cuda.sparse.wgmma.config import (
    DEPTH,
    HEAD_PLACES,
    LONG_VECTORS,
    PADDING_BYTES,
    LongConfig,
    LongTiling,
)
from autoq.templates.cuda.sparse.wgmma.cost import estimated_seconds, features
from autoq.templates.cuda.sparse.wgmma.kernel_source import COLUMNS_SOURCE
from autoq.templates.cuda.sparse.wgmma.multiply_source import (
    MULTIPLY_SOURCE,
    SINGLE_PRODUCTS,
    WHOLE_STAGES,
)
from autoq.templates.cuda.sparse.wgmma.outputs_source import FINISH_ROWS
from autoq.templates.cuda.sparse.wgmma.pack import long_specs, pack_long
from autoq.templates.cuda.sparse.wgmma.source import LONG_HEADING, RING_SOURCE
from autoq.templates.epilogue.cuda.thread.thread_epilogue import ThreadEpilogue
from autoq.templates.operators.spmm import Spmm
from autoq.templates.operators.spmm_dtypes import value_range
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_AS_BYTES = {"int8": "int8", "uint8": "uint8", "int4": "int8", "uint4": "uint8"}
_DIGITS = {**_AS_BYTES, "int16": "int8", "uint16": "uint8"}
"""The type of a value's highest byte; lower ones have no sign."""
_MOST_DIGIT = 255
_NIBBLE_FACTOR = 16
"""Values of b of 4 bits are multiplied where they lie, in the upper half of a byte."""
_MOST_SUM = (1 << 31) - 1
_MOST_SUMS = 128
"""Of a thread, in registers."""
_ALIGNED_BYTES = 16
"""What the bytes of a row of b are a multiple of: a copy takes whole 16 bytes."""
_SCHEDULE = ("values", "places", "starts", "lengths", "rows_of", "heads")


def matches(workload: object, target: Target) -> bool:
    """Products of bytes, nibbles or floats with long vectors, rows of b whole 16 bytes, on Hopper.

    Vectors of 16 rows are its own where no panel of b fits shared memory: by count each gathered
    row comes from the L2 for so few rows of y that `spmm_panel` is faster: on an H100 123 us to 220
    for 4096 cubed at 0.75.
    """
    if not isinstance(workload, Spmm) or not target.has_wgmma:
        return False
    bits = element(workload.in_dtype).bits
    return (
        workload.vector in LONG_VECTORS
        and not (workload.vector == LONG_VECTORS[0] and panel_fits(workload, target))
        and (workload.floating or _sums_fit(workload))
        and _sums_have_registers(workload)
        and workload.n * bits % (8 * _ALIGNED_BYTES) == 0
        and ThreadEpilogue(rows_as_conv2d(workload), 1).supported
        and indexable((workload.k, workload.n * max(1, bits // 8)), workload.y_shape)
    )


def _sums_fit(workload: Spmm) -> bool:
    """Whether b has bytes or nibbles, and int32 sums of each digit, of 16 times the latter, fit."""
    if workload.in_dtype not in _AS_BYTES or workload.weight_dtype not in _DIGITS:
        return False
    factor = _NIBBLE_FACTOR if is_four_bit(workload.in_dtype) else 1
    most = [max(map(abs, value_range(d))) for d in (workload.in_dtype, workload.weight_dtype)]
    return workload.longest * most[0] * min(most[1], _MOST_DIGIT) * factor <= _MOST_SUM


def _least_tiles(workload: Spmm) -> int:
    """Tiles of 64 columns of a warpgroup: of nibbles two have columns in the same bytes."""
    return 2 if is_four_bit(workload.in_dtype) else 1


def _sums_have_registers(workload: Spmm) -> bool:
    """Whether a thread holds the sums of its fewest tiles, of each digit of the sparse side."""
    digits = 2 if workload.weight_dtype in ("int16", "uint16") else 1
    return workload.vector // 2 * digits * _least_tiles(workload) <= _MOST_SUMS


def space(workload: Spmm, target: Target) -> Space[LongConfig]:
    """Rings that fit a multiprocessor, sums that fit registers, clusters of one vector row."""
    knobs = {
        "teams": (1, 2, 3),
        "tiles": (1, 2, 4),
        "rows": (32, 64, 128),
        "stages": (2, 3, 4, 5, 6, 8, 12),
        "cluster": (1, 2, 4),
        "blocks_per_unit": (1, 2, 3),
        "whole_stages": (True, False),
        "bulk": (0, 4),
        "persistent": (False, True),
        "streamed": (False, True),
        "turns_back": (False, True),
    }

    def tiling_of(config: LongConfig) -> LongTiling:
        return LongTiling(workload, config)

    def ring_fits(config: LongConfig) -> bool:
        """The ring fits the target's shared memory."""
        return tiling_of(config).smem_bytes <= target.smem_bytes

    def blocks_fit(config: LongConfig) -> bool:
        """A multiprocessor has shared memory and registers for its blocks."""
        return tiling_of(config).fits(target)

    def panels_have_columns(config: LongConfig) -> bool:
        """No block is wider than y, unless it is the narrowest."""
        narrowest = config.teams * config.tiles == _least_tiles(workload)
        return narrowest or tiling_of(config).columns <= workload.n

    def clusters_share_vectors(config: LongConfig) -> bool:
        """All blocks of a cluster are of one vector row."""
        return tiling_of(config).panels % config.cluster == 0

    def warps_copy_together(config: LongConfig) -> bool:
        """All lanes of a warp have pieces of rows that threads copy."""
        return tiling_of(config).pieces_of_warp % 32 == 0

    def nibbles_have_pairs(config: LongConfig) -> bool:
        """Where bytes hold two columns of b, a warp has two tiles of 16."""
        return config.tiles % _least_tiles(workload) == 0

    def blocks_take_tiles(config: LongConfig) -> bool:
        """Blocks that take one tile after another have some to take."""
        tiling = tiling_of(config)
        return not config.persistent or tiling.blocks(target) < tiling.tiles_of_y

    def tiles_follow(config: LongConfig) -> bool:
        """A block that turns back takes one tile after another."""
        return config.persistent or not config.turns_back

    def clusters_turn_whole_stages(config: LongConfig) -> bool:
        """Blocks of a cluster turn fragments of a stage together, if it has more than one's.

        ptxas serialises the products of others: "non wgmma instructions defining input registers".
        """
        single = config.tiles == 1 and config.rows == 32
        return config.cluster == 1 or config.whole_stages or single

    constraints = (
        blocks_take_tiles,
        tiles_follow,
        ring_fits,
        blocks_fit,
        panels_have_columns,
        clusters_share_vectors,
        warps_copy_together,
        nibbles_have_pairs,
        clusters_turn_whole_stages,
    )
    return Space(LongConfig, knobs, constraints, lambda c: features(tiling_of(c), target))


def default(workload: Spmm, target: Target) -> LongConfig:
    """The legal configuration of least estimated time, without clusters: none was the fastest.

    Two warpgroups multiply on a multiprocessor where y has columns for them.
    """
    legal = [config for config in space(workload, target).enumerate() if config.cluster == 1]
    several = [config for config in legal if config.teams * config.blocks_per_unit > 1]
    return min(several or legal, key=lambda config: estimate(workload, config, target))


def estimate(workload: Spmm, config: LongConfig, target: Target) -> float:
    """Roughly the seconds of a configuration."""
    return estimated_seconds(LongTiling(workload, config), target)


def build(workload: Spmm, config: LongConfig, target: Target) -> PrimFunc:
    """The product; parameters b, residual?, those of `long_specs`, y."""
    tiling = LongTiling(workload, config)
    own = {
        "TEAMS": config.teams, "TILES": config.tiles, "ROWS": config.rows,
        "STAGES": config.stages, "CLUSTER": config.cluster, "VECTOR": workload.vector,
        "PADDING": PADDING_BYTES, "STAGE_BYTES": tiling.stage_bytes, "PANELS": tiling.panels,
        "BULK": config.bulk,
        "RING_BYTES": tiling.ring_bytes, "STAGING_BYTES": tiling.staging_bytes,
        "SIZE": tiling.value_size, "APART": 8 if workload.floating else 1,
        "STAGES_Y": tiling.stages_outputs, "TURNS": tiling.turns_outputs,
        "PERSISTENT": config.persistent,
        "BLOCKS": tiling.blocks(target), "ALL_TILES": tiling.tiles_of_y,
        "STAGING_START": tiling.staging_start, "BARRIER_BYTES": tiling.barrier_bytes,
        "TERM_BYTES": tiling.term_bytes, "STREAMED": config.streamed,
        "TURNS_BACK": config.turns_back, "CUTS_LAST": tiling.cuts_last, "HEAD": HEAD_PLACES,
        "PRODUCER_REGISTERS": tiling.budget.producer, "CONSUMER_REGISTERS": tiling.budget.consumer,
    }  # fmt: skip
    source = LONG_HEADING.replace("PRODUCTS", products(tiling))
    stages = WHOLE_STAGES if config.whole_stages else SINGLE_PRODUCTS
    source += RING_SOURCE + FINISH_ROWS + MULTIPLY_SOURCE + stages + COLUMNS_SOURCE
    functions = device_functions(tiling, "spmm_wgmma", source, own, _SCHEDULE)
    parameters = [*workload.inputs, *packed(workload, config), *workload.outputs]

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        smem = builder.alloc_buffer((tiling.smem_bytes,), "uint8", scope="shared.dyn", align=128)
        call(functions.function("spmm"), smem.data, *pointers, block, thread)

    return thread_kernel(
        parameters, tiling.blocks(target), tiling.threads, target, body, cluster=config.cluster,
        together=config.blocks_per_unit,
    )  # fmt: skip


def products(tiling: LongTiling) -> str:
    """C++ of the instruction of each digit over sums d, registers a and a descriptor b."""
    workload = tiling.workload
    right = _AS_BYTES.get(workload.in_dtype, workload.in_dtype)
    highest = _DIGITS.get(workload.weight_dtype, workload.weight_dtype)
    kinds = ["uint8"] * (tiling.left_digits - 1) + [highest]
    shape = (64, workload.vector, DEPTH // (2 if workload.floating else 1))
    accumulator = "float32" if workload.floating else "int32"
    count = workload.vector // 2
    sums = ", ".join(f"%{i}" for i in range(count))
    left = ", ".join(f"%{count + i}" for i in range(4))
    outputs = ", ".join(f'"+r"(d[{i}])' for i in range(count))
    source = ""
    for digit, kind in enumerate(kinds):
        atom = Wgmma(shape, right, kind, accumulator, a_from_registers=True)
        behind = "".join(f", {immediate}" for immediate in atom.immediates)
        source += (
            f"\n  if constexpr (DIGIT == {digit})\n"
            f'  asm volatile("{{ .reg .pred p; setp.ne.b32 p, 1, 0; {atom.instruction} '
            f'{{{sums}}}, {{{left}}}, %{count + 4}, p{behind}; }}"\n    : {outputs}\n'
            '    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));'
        )
    return source


def pack(workload: Spmm, config: LongConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """What `pack_long` gives."""
    return pack_long(LongTiling(workload, config), constants)


def packed(workload: Spmm, config: LongConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return long_specs(LongTiling(workload, config))


_PREFERRED = 10

TEMPLATE = Template(
    "spmm_wgmma", 3, matches, space, default, build, pack, packed, estimate=estimate,
    preference=_PREFERRED,
)  # fmt: skip
