"""Sparse products with little to do: some warps for each group of rows, which share its steps.

Where a product takes a few microseconds, what it waits for is a chain of loads. Here it has two
links: the places of a warp's first step lie where its number says, and rows of b come straight to
registers. Sums of the warps meet in shared memory.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.search.space import Space
from autoq.templates.arrays.element import element
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.device.launch.thread_kernel import call, indexable, thread_kernel
from autoq.templates.cuda.sparse import spmm_online, spmm_panel
from autoq.templates.cuda.sparse.config import GROUP, STEP, PanelConfig, PanelTiling
from autoq.templates.cuda.sparse.functions import device_functions, pack_terms, term_specs
from autoq.templates.cuda.sparse.pack import pack_schedule
from autoq.templates.cuda.sparse.split_source import SPLIT_SOURCE
from autoq.templates.cuda.sparse.unstaged_source import UNSTAGED_SOURCE
from autoq.templates.hardware import HARDWARE
from autoq.templates.operators.spmm import Spmm
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_COLUMNS = (32, 64, 128)
_WARPS = (1, 2, 4, 8, 16)
_GROUPS = (1, 2, 4, 8)
_MOST_WARPS = 16
_MOST_ROW_BYTES = 128
_WORDS_OF_GROUP = 4
_SCHEDULE = ("values", "places", "groups")

_BEHIND, _PREFERRED = -10, 7
"""Preferences: where other kernels should be faster, and where this should."""


@dataclass(frozen=True)
class SplitConfig:
    """Configuration of a product whose groups have blocks of their own.

    columns: of b and y that a block computes.
    warps: of a group, which take its steps in turn.
    groups: of a block. Blocks start at some two clocks from one another, whatever they hold.
    by_tiles: whether blocks of the same columns follow one another, whose rows of b an L1 may hold
        still; else those of the same group, the longest groups first.
    """

    columns: int
    warps: int
    groups: int = 1
    by_tiles: bool = False


def matches(workload: object, target: Target) -> bool:
    """Sparse products of the panel kernel with rows of whole pieces of 16 bytes."""
    return (
        spmm_panel.matches(workload, target)
        and isinstance(workload, Spmm)
        and workload.n % 16 == 0
        and indexable((_steps(workload, SplitConfig(_COLUMNS[0], _WARPS[-1])), STEP, GROUP))
    )


def space(workload: Spmm, target: Target) -> Space[SplitConfig]:
    """Every legal configuration."""

    def rows_are_few_bytes(config: SplitConfig) -> bool:
        """A lane has at most 16 bytes of a row of b."""
        return config.columns * _tiling(workload, config).right_digits <= _MOST_ROW_BYTES

    def blocks_are_not_empty(config: SplitConfig) -> bool:
        """No block is wider than y, unless it is the narrowest."""
        return config.columns == _COLUMNS[0] or config.columns <= workload.n

    def warps_have_steps(config: SplitConfig) -> bool:
        """The longest group has a step for each warp."""
        return config.warps <= max(1, -(-_tiling(workload, config).longest // STEP))

    def blocks_have_threads(config: SplitConfig) -> bool:
        """A block has at most 512 threads, whose registers are not limited then."""
        return config.warps * config.groups <= _MOST_WARPS

    def blocks_have_groups(config: SplitConfig) -> bool:
        """No block has more groups than there are."""
        return config.groups <= _tiling(workload, config).groups

    def sums_fit(config: SplitConfig) -> bool:
        """Shared memory holds the sums of all warps."""
        return _tiling(workload, config).sum_bytes <= target.smem_bytes

    def features(config: SplitConfig) -> Mapping[str, float]:
        blocks = -(-workload.n // config.columns) * _tiling(workload, config).groups
        blocks = -(-blocks // config.groups)
        return {"blocks": float(blocks), "seconds_estimate": estimate(workload, config, target)}

    def tiles_are_several(config: SplitConfig) -> bool:
        """Blocks of other columns follow where there are such."""
        return not config.by_tiles or config.columns < workload.n

    constraints = (
        tiles_are_several, rows_are_few_bytes, blocks_are_not_empty, warps_have_steps,
        blocks_have_threads, blocks_have_groups, sums_fit,
    )  # fmt: skip
    knobs = {"columns": _COLUMNS, "warps": _WARPS, "groups": _GROUPS, "by_tiles": (False, True)}
    return Space(SplitConfig, knobs, constraints, features)


@functools.lru_cache(maxsize=256)
def default(workload: Spmm, target: Target) -> SplitConfig:
    """The legal configuration of least estimated time, the longest groups first.

    Of 96 products of pruned layers' shapes on an H200 what is chosen so takes 3% longer than the
    fastest of some twelve.
    """
    legal = space(workload, target).restricted({"by_tiles": (False,)})
    return min(legal.enumerate(), key=lambda config: estimate(workload, config, target))


def _tiling(workload: Spmm, config: SplitConfig) -> PanelTiling:
    """How the sparse side is packed: groups one after the other, the longest first."""
    warps = config.warps * config.groups
    return PanelTiling(workload, PanelConfig(config.columns, warps, 1, 1, staged=False))


def _steps(workload: Spmm, config: SplitConfig) -> int:
    """Steps of the packed arrays: one for each warp of each group, and what groups have more."""
    tiling = _tiling(workload, config)
    return tiling.groups * config.warps + tiling.steps


def build(workload: Spmm, config: SplitConfig, target: Target) -> PrimFunc:
    """The product; parameters b, residual?, those of `packed`, y."""
    tiling, tiles = _tiling(workload, config), -(-workload.n // config.columns)
    blocks = -(-tiling.groups // config.groups)
    own = {
        "WARPS": config.warps, "TILES": tiles, "GROUPS": tiling.groups, "TEAMS": config.groups,
        "GROUP_BLOCKS": blocks, "BY_TILES": config.by_tiles, "ROWS_INSIDE": workload.m % GROUP == 0,
        "COLUMNS_INSIDE": workload.n % config.columns == 0,
        "STORES_WIDE": True,
    }  # fmt: skip
    source = UNSTAGED_SOURCE + SPLIT_SOURCE
    functions = device_functions(tiling, "spmm_split", source, own, _SCHEDULE)
    parameters = [*workload.inputs, *packed(workload, config), *workload.outputs]
    smem_bytes = tiling.sum_bytes if config.warps > 1 else STEP

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        smem = builder.alloc_buffer((smem_bytes,), "uint8", scope="shared.dyn", align=128)
        call(functions.function("spmm"), smem.data, *pointers, block, thread)

    return thread_kernel(parameters, tiles * blocks, tiling.threads, target, body)


def pack(workload: Spmm, config: SplitConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """The steps of `pack_schedule` in another order, and what groups have.

    values, places: for each group the first step of each warp, then what groups have more, one
    after the other. groups: where the latter begin, how many steps there are in all, and the first
    row of y. Then what `pack_terms` gives.
    """
    tiling = _tiling(workload, config)
    values, places, starts, rows, *_ = pack_schedule(tiling, constants)
    groups, warps = tiling.groups, config.warps
    first, count = starts[:groups], np.diff(starts[: groups + 1])
    more = np.maximum(0, count - warps)
    rest = groups * warps + np.cumsum(more) - more
    group = np.repeat(np.arange(groups), count)
    within = np.arange(len(group)) - first[group]
    to = np.where(within < warps, group * warps + within, rest[group] + within - warps)
    specs = packed(workload, config)
    moved = [np.zeros(spec.shape, spec.dtype) for spec in specs[:3]]
    # A warp without a step gathers what the group's first one does, times 0.
    moved[1][: groups * warps] = np.repeat(places[first], warps, axis=0)
    for new, old in zip(moved, (values, places), strict=False):
        new[to] = old[: len(to)]
    moved[2][:, :3] = np.stack([rest, count, rows[:groups]], axis=1)
    of_terms = rows.astype(np.int64)[:, None] + np.arange(GROUP)
    return (*moved, *pack_terms(tiling, constants, of_terms.reshape(-1)))


def packed(workload: Spmm, config: SplitConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    tiling, steps = _tiling(workload, config), _steps(workload, config)
    return (
        TensorSpec("values", (steps, tiling.left_digits, 32, 2), "int32"),
        TensorSpec("places", (steps, STEP), "int32"),
        TensorSpec("groups", (tiling.groups, _WORDS_OF_GROUP), "int32"),
        *term_specs(tiling),
    )


# Fitted to 769 products on an H200, of which the estimates are off by a twelfth.
_START_SECONDS, _SHARED_SECONDS = 1.14e-6, 0.54e-6
"""Seconds of one that has nearly nothing to do, and more where warps add up their sums."""
_ROUND_SECONDS, _WIDE_SECONDS = 0.23e-6, 0.5e-6
"""Of a round of the steps of the longest group, and more where a row of b has 128 bytes."""
_GATHER_RATE = 9.6e12
"""Bytes a second of the rows of all steps, those of warps that have no step too."""
_BLOCK_SECONDS, _THREAD_SECONDS, _FREE_THREADS = 0.454e-9, 0.898e-6 / 512, 128
"""Of a block, wherever it runs, and of each thread of one that has more than so many."""
_HELD_SECONDS, _WAVE_SECONDS = 0.19e-6, 1.07e-6
"""Of all registers of the device that warps hold at once, and of those that wait for others."""
_REGISTERS, _REGISTERS_A_COLUMN = 46, 0.58
"""Of a thread."""
_DIGIT_SHARE = 0.25
"""The share that a second digit of the values adds to a round."""


def estimate(workload: Spmm, config: SplitConfig, target: Target) -> float:
    """Roughly the seconds of a configuration."""
    tiling, tiles = _tiling(workload, config), -(-workload.n // config.columns)
    row_bytes = config.columns * tiling.right_digits
    rounds = -(-max(1, -(-tiling.longest // STEP)) // config.warps)
    seconds = _START_SECONDS + _SHARED_SECONDS * (config.warps > 1)
    seconds += rounds * (1 + _DIGIT_SHARE * (tiling.left_digits - 1)) * _ROUND_SECONDS
    seconds += _WIDE_SECONDS * row_bytes / 128
    steps = max(tiling.steps, tiling.groups * config.warps)
    seconds += steps * STEP * tiles * row_bytes / _GATHER_RATE
    seconds += tiles * -(-tiling.groups // config.groups) * _BLOCK_SECONDS
    seconds += max(0, tiling.threads - _FREE_THREADS) * _THREAD_SECONDS
    registers = 32 * (_REGISTERS + _REGISTERS_A_COLUMN * config.columns)
    held = tiles * tiling.groups * config.warps * registers
    held /= target.units * HARDWARE[target.arch].register_file
    seconds += held * _HELD_SECONDS + max(0.0, held - 1) * _WAVE_SECONDS
    return max(seconds, workload.bytes / target.memory_rate)


@functools.lru_cache(maxsize=256)
def preference_for(workload: Spmm, target: Target) -> int:
    """In front of the other kernels of short vectors where these should take longer."""
    if workload.floating or element(workload.in_dtype).bits > 8:
        return _BEHIND
    own = estimate(workload, default(workload, target), target)
    others = (
        module.estimate(workload, module.default(workload, target), target)
        for module in (spmm_panel, spmm_online)
    )
    return _PREFERRED if own < min(others) else _BEHIND


TEMPLATE = Template(
    "spmm_split", 1, matches, space, default, build, pack, packed, estimate=estimate,
    preference=_BEHIND, preference_for=preference_for,
)  # fmt: skip
