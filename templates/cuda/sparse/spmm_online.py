"""Sparse products of integers in Magicube's way: rows named by a step are copied, then turned.

The baseline that `spmm_panel` is held against, with the paper's knobs: how far ahead rows are read,
and whether rows in shared memory are padded so that reading them has no conflicts.
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
from autoq.templates.cuda.device.launch.thread_kernel import call, thread_kernel
from autoq.templates.cuda.sparse import spmm_panel
from autoq.templates.cuda.sparse.config import STEP, PanelConfig, PanelTiling
from autoq.templates.cuda.sparse.functions import device_functions, pack_all, packed_all
from autoq.templates.cuda.sparse.online_source import ONLINE_SOURCE
from autoq.templates.cuda.sparse.unstaged_source import UNSTAGED_SOURCE
from autoq.templates.operators.spmm import Spmm
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_WARP_COLUMNS = 32
_PADDING_WORDS = 4
"""Rows 2t of four neighbouring lanes are then eight banks apart."""

_BEHIND, _PREFERRED = -10, 5
"""Preferences: where `spmm_panel` should be faster, and where this should."""

# Fitted to 110 products on an H100, of which the estimates are off by a twelfth.
_START_SECONDS = 1.67e-6
_STEP_SECONDS = 0.29e-6
"""Seconds of a step of the longest group, whose steps wait for each other."""
_BUSY_SECONDS = 0.055e-6
"""Seconds of a multiprocessor for a step of 128 columns."""
_GROUP_SECONDS = 0.033e-6
_DIGIT_SHARE = 0.25
"""The share that a second digit of the values adds to a step."""


@dataclass(frozen=True)
class OnlineConfig:
    """Configuration of Magicube's product.

    columns: of a block, 32 for each warp.
    ahead: whether the rows of the next step are read while this one is multiplied.
    padded: whether rows in shared memory are padded.
    """

    columns: int
    ahead: bool = True
    padded: bool = True


def matches(workload: object, target: Target) -> bool:
    """Sparse products with b of bytes or nibbles, rows of whole vectors, and any integers."""
    return (
        spmm_panel.matches(workload, target)
        and isinstance(workload, Spmm)
        and element(workload.in_dtype).bits <= 8
        and not workload.floating
        and workload.n % 16 == 0
    )


def space(workload: Spmm, target: Target) -> Space[OnlineConfig]:
    """Every legal configuration."""

    def blocks_are_not_empty(config: OnlineConfig) -> bool:
        """No block is wider than y, unless it is the narrowest."""
        return config.columns == 2 * _WARP_COLUMNS or config.columns <= workload.n

    knobs = {"columns": (64, 128, 256), "ahead": (False, True), "padded": (False, True)}

    def features(config: OnlineConfig) -> Mapping[str, float]:
        tiles = -(-workload.n // config.columns)
        groups = _tiling(workload).groups
        return {"blocks": float(tiles * groups), "waves": tiles * groups / target.units}

    return Space(OnlineConfig, knobs, (blocks_are_not_empty,), features)


def default(workload: Spmm, target: Target) -> OnlineConfig:
    """The paper's: rows of 64 bytes for short rows of y, else of 128."""
    return OnlineConfig(128 if workload.n >= 128 else 64)


def _tiling(workload: Spmm) -> PanelTiling:
    """How the sparse side is packed: groups one after the other, the longest first."""
    return PanelTiling(workload, PanelConfig(_WARP_COLUMNS, 1, 1, 1, staged=False))


def build(workload: Spmm, config: OnlineConfig, target: Target) -> PrimFunc:
    """The product; parameters as those of `spmm_panel`."""
    tiling = _tiling(workload)
    threads, tiles = config.columns, -(-workload.n // config.columns)
    padding = _PADDING_WORDS if config.padded else 0
    own = {
        "THREADS": threads, "TILE": config.columns, "TILES": tiles, "PADDING": padding,
        "AHEAD": config.ahead,
    }  # fmt: skip
    functions = device_functions(tiling, "spmm_online", UNSTAGED_SOURCE + ONLINE_SOURCE, own)
    parameters = [*workload.inputs, *packed(workload, config), *workload.outputs]
    smem_bytes = STEP * (config.columns + 4 * padding)

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        smem = builder.alloc_buffer((smem_bytes,), "uint8", scope="shared", align=128)
        call(functions.function("spmm"), smem.data, *pointers, block, thread)

    return thread_kernel(parameters, tiles * tiling.groups, threads, target, body)


def pack(workload: Spmm, config: OnlineConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """What `pack_all` gives."""
    return pack_all(_tiling(workload), constants)


def packed(workload: Spmm, config: OnlineConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return packed_all(_tiling(workload))


def estimate(workload: Spmm, config: OnlineConfig, target: Target) -> float:
    """Roughly the seconds of a configuration of the default's form."""
    tiling = _tiling(workload)
    share = -(-workload.n // config.columns) * config.columns / 128 / target.units
    steps = _STEP_SECONDS * -(-tiling.longest // STEP) + _BUSY_SECONDS * share * tiling.steps
    steps *= 1 + _DIGIT_SHARE * (tiling.left_digits - 1)
    seconds = _START_SECONDS + steps + _GROUP_SECONDS * share * tiling.groups
    return max(seconds, workload.bytes / target.memory_rate)


@functools.lru_cache(maxsize=256)
def preference_for(workload: Spmm, target: Target) -> int:
    """In front of `spmm_panel` where that should take longer: little to do, or few columns."""
    own = estimate(workload, default(workload, target), target)
    panel = spmm_panel.default(workload, target)
    faster = own < spmm_panel.estimate(workload, panel, target)
    return _PREFERRED if faster else _BEHIND


TEMPLATE = Template(
    "spmm_online", 1, matches, space, default, build, pack, packed, estimate=estimate,
    preference=_BEHIND, preference_for=preference_for,
)  # fmt: skip
