"""Sparse products of integers on tensor cores, over a panel of the dense side in shared memory.

Gathers are what a product of short vectors waits for. A block keeps all rows of a few columns of b
in shared memory, and its warps gather from there for groups of eight rows of y, one after another.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.search.space import Space
from autoq.templates.arrays.storage import is_four_bit
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.device.launch.thread_kernel import call, indexable, thread_kernel
from autoq.templates.cuda.sparse.config import GROUP, STEP, PanelConfig, PanelTiling
from autoq.templates.cuda.sparse.cost import estimated_seconds, features
from autoq.templates.cuda.sparse.functions import (
    device_functions,
    pack_all,
    packed_all,
    rows_as_conv2d,
)
from autoq.templates.cuda.sparse.source import RUNS
from autoq.templates.cuda.sparse.staged_source import STAGED_SOURCE
from autoq.templates.cuda.sparse.unstaged_source import UNSTAGED_SOURCE
from autoq.templates.epilogue.cuda.thread.thread_epilogue import ThreadEpilogue
from autoq.templates.operators.spmm import Spmm
from autoq.templates.target import Target
from autoq.templates.workload import Constants

# mma.sync of 16 x 8 x 32 bytes.
_LEAST_COMPUTE_CAPABILITY = 80
_COLUMNS = (16, 32, 64, 128)
_SMALL_COLUMNS = 32
"""Columns of panels that may be wider than y."""
_LEAST_ROW_BYTES = 32
_WARPS = (4, 8, 16, 24, 32)
_WARPS_OF_DIGITS = 24
_PARTS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128)
_PREFETCH = (1, 2, 3, 4, 8)
_MOST_ROW_BYTES = 128

Kind = Callable[[Spmm, PanelConfig], PanelTiling]
"""What a panel has of each row of b: bytes, or nibbles as they are."""


def panel_fits(workload: Spmm, target: Target, tiling_of: Kind = PanelTiling) -> bool:
    """Whether shared memory holds the narrowest panel of b."""
    size = tiling_of(workload, PanelConfig(_SMALL_COLUMNS, _WARPS[0], 1, 1)).right_digits
    least = tiling_of(workload, PanelConfig(_SMALL_COLUMNS // size, _WARPS[0], 1, 1))
    return least.smem_bytes <= target.smem_bytes


def matches(workload: object, target: Target) -> bool:
    """Every sparse product whose arrays have int32 indices; b of 4 bits in panels or in fours."""
    if not isinstance(workload, Spmm) or target.kind != "cuda":
        return False
    least = PanelTiling(workload, PanelConfig(_SMALL_COLUMNS, _WARPS[0], 1, 1))
    whole = workload.n % 4 == 0 or panel_fits(workload, target)
    if is_four_bit(workload.in_dtype) and not whole:
        return False
    return (
        target.compute_capability >= _LEAST_COMPUTE_CAPABILITY
        and ThreadEpilogue(rows_as_conv2d(workload), 1).supported
        and indexable((workload.k, workload.n), workload.y_shape)
        and indexable((least.steps + 1, STEP, GROUP))
    )


def space(workload: Spmm, target: Target) -> Space[PanelConfig]:
    """Blocks that fit a multiprocessor and have rows to compute."""
    return space_of(workload, target, PanelTiling)


def space_of(workload: Spmm, target: Target, kind: Kind) -> Space[PanelConfig]:
    """The space of a kind of panels."""
    knobs = {
        "columns": _COLUMNS,
        "warps": _WARPS,
        "parts": _PARTS,
        "prefetch": _PREFETCH,
        "staged": (True, False),
        "copies": (False, True),
        "streamed": (False, True),
    }

    def tiling_of(config: PanelConfig) -> PanelTiling:
        return kind(workload, config)

    def shared_memory_suffices(config: PanelConfig) -> bool:
        """The panel and the sums of every warp fit the target."""
        return tiling_of(config).smem_bytes <= target.smem_bytes

    def registers_suffice(config: PanelConfig) -> bool:
        """A multiprocessor has registers and threads for a block."""
        return tiling_of(config).resident(target) > 0

    def parts_have_groups(config: PanelConfig) -> bool:
        """There are at least as many groups of eight rows as parts."""
        return config.parts <= tiling_of(config).groups

    def panels_have_columns(config: PanelConfig) -> bool:
        """No panel of more than 32 columns is wider than y."""
        return config.columns <= max(_SMALL_COLUMNS, workload.n)

    def rows_are_few_banks(config: PanelConfig) -> bool:
        """A row of the panel has 32 to 128 bytes; without a panel it has 32 columns or more.

        Of nibbles as they are a row has half as many, and it lies in a panel.
        """
        tiling = tiling_of(config)
        least = _LEAST_ROW_BYTES * tiling.digit_bits // 8
        if not config.staged:
            least = _SMALL_COLUMNS * tiling.right_digits
        anywhere = config.staged or tiling.digit_bits == 8
        return anywhere and least <= tiling.row_bytes <= _MOST_ROW_BYTES

    def warps_have_registers(config: PanelConfig) -> bool:
        """24 warps have 80 registers each, which sums of several digits take: others fit in 64."""
        return config.warps != _WARPS_OF_DIGITS or (config.staged and tiling_of(config).planes > 1)

    def nibbles_are_whole(config: PanelConfig) -> bool:
        """Values of b of 4 bits that are gathered from the L2 come four together."""
        return config.staged or not is_four_bit(workload.in_dtype) or workload.n % 4 == 0

    def copies_have_room(config: PanelConfig) -> bool:
        """A fifth of the rows have a second place, where any has."""
        return not config.copies or (
            config.staged and 5 * tiling_of(config).copied_rows >= workload.k
        )

    constraints = (
        rows_are_few_banks,
        copies_have_room,
        nibbles_are_whole,
        warps_have_registers,
        shared_memory_suffices,
        registers_suffice,
        parts_have_groups,
        panels_have_columns,
    )
    return Space(PanelConfig, knobs, constraints, lambda c: features(tiling_of(c), target))


@functools.lru_cache(maxsize=256)
def default(workload: Spmm, target: Target) -> PanelConfig:
    """The configuration of least estimated time, of those that spill nothing if there are any."""
    legal = list(space(workload, target).enumerate())
    held = [config for config in legal if not PanelTiling(workload, config).spills(target)]
    return min(held or legal, key=lambda config: estimate(workload, config, target))


def estimate(workload: Spmm, config: PanelConfig, target: Target) -> float:
    """Roughly the seconds of a configuration."""
    return estimated_seconds(PanelTiling(workload, config), target)


def build(workload: Spmm, config: PanelConfig, target: Target) -> PrimFunc:
    """The product; parameters b, residual?, those of `schedule_specs`, bias, scale?, scalars?, y.

    bias and scale are of the rows of groups; behind the scales lie float biases, where there are.
    """
    gathers = STAGED_SOURCE if config.staged else UNSTAGED_SOURCE
    return build_panel(PanelTiling(workload, config), "spmm_panel", gathers, target)


def build_panel(tiling: PanelTiling, name: str, gathers: str, target: Target) -> PrimFunc:
    """The product of a kind of panels, from which `gathers` reads."""
    workload, config = tiling.workload, tiling.config
    own = {
        "WARPS": config.warps, "THREADS": tiling.threads, "PANELS": tiling.panels,
        "PREFETCH": config.prefetch, "STAGED": config.staged, "WHOLE": tiling.whole,
        "FIRST_COPY": tiling.first_copy, "COPIED_ROWS": tiling.copied_rows,
        "PANEL_BYTES": tiling.panel_bytes, "ROWS_INSIDE": workload.m % GROUP == 0,
        "COLUMNS_INSIDE": workload.n % config.columns == 0, "STREAMED": config.streamed,
        "STORES_WIDE": True,
    }  # fmt: skip
    functions = device_functions(tiling, name, gathers + RUNS, own)
    parameters = [*workload.inputs, *packed_all(tiling), *workload.outputs]

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        smem = builder.alloc_buffer((tiling.smem_bytes,), "uint8", scope="shared.dyn", align=128)
        call(functions.function("spmm"), smem.data, *pointers, block, thread)

    # ptxas may spill to have room for a second block, which shared memory has none for. Blocks of
    # all warps have what one alone has.
    alone = tiling.resident(target) == 1 and config.warps < _WARPS[-1]
    return thread_kernel(
        parameters, tiling.blocks, tiling.threads, target, body, together=1 if alone else None
    )


def pack(workload: Spmm, config: PanelConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """What `pack_all` gives."""
    return pack_all(PanelTiling(workload, config), constants)


def packed(workload: Spmm, config: PanelConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return packed_all(PanelTiling(workload, config))


TEMPLATE = Template(
    "spmm_panel", 2, matches, space, default, build, pack, packed, estimate=estimate
)
