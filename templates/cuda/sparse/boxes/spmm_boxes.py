"""Sparse products of long vectors by wgmma, over boxes of all rows of b that vector rows share.

Where vectors have a good part of all columns, copying every row of b once for all vector rows side
by side is faster than gathering what each of them has.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as builder

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.device.launch.mapped import Mapped
from autoq.templates.cuda.device.launch.thread_kernel import call, thread_kernel
from autoq.templates.cuda.device.memory.ring_source import RING
from autoq.templates.cuda.device.memory.swizzle import swizzle_mode
from autoq.templates.cuda.device.memory.tma import ENCODE_TILED, tiled_map
from autoq.templates.cuda.device.turned.row_steps import DEPTH, LINE_BYTES, STAGE_K
from autoq.templates.cuda.sparse.boxes.config import (
    OF_AN_INSTRUCTION,
    BoxesConfig,
    BoxesTiling,
)
from autoq.templates.cuda.sparse.boxes.cost import estimated_seconds, features
from autoq.templates.cuda.sparse.boxes.multiply_source import MULTIPLY_BOXES
from autoq.templates.cuda.sparse.boxes.pack import boxes_specs, pack_boxes
from autoq.templates.cuda.sparse.boxes.source import BOXES_HEADING, BOXES_KERNEL, LOAD_BOXES
from autoq.templates.cuda.sparse.functions import device_functions
from autoq.templates.cuda.sparse.wgmma import spmm_wgmma
from autoq.templates.cuda.sparse.wgmma.config import LONG_VECTORS
from autoq.templates.cuda.sparse.wgmma.outputs_source import FINISH_ROWS
from autoq.templates.operators.spmm import Spmm
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_BYTES = ("int8", "uint8")
_SCHEDULE = ("values", "sides")


def matches(workload: object, target: Target) -> bool:
    """Products of bytes with vectors of 128 rows, rows of b whole 16 bytes, on Hopper.

    Of 16-bit floats the kernel that gathers is as fast: there rows of a tile are long enough to
    come by a bulk copy each.
    """
    if not isinstance(workload, Spmm) or not spmm_wgmma.matches(workload, target):
        return False
    plain = all(dtype in _BYTES for dtype in (workload.in_dtype, workload.weight_dtype))
    return plain and workload.vector == LONG_VECTORS[-1]


def space(workload: Spmm, target: Target) -> Space[BoxesConfig]:
    """Rings that fit a multiprocessor, sums that fit registers."""
    knobs = {
        "sides": (1, 2),
        "teams": (1, 2),
        "tiles": (1, 2, 4),
        "b_stages": (4, 6, 8, 11, 13, 16),
        "stages": (2, 3, 4, 5, 6, 8),
        "fragments": (2, 4),
        "parted": (False, True),
        "streamed": (False, True),
    }

    def tiling_of(config: BoxesConfig) -> BoxesTiling:
        return BoxesTiling(workload, config)

    def lines_are_whole(config: BoxesConfig) -> bool:
        """Rows of b in a stage are lines of 128 bytes."""
        return tiling_of(config).columns % LINE_BYTES == 0

    def rings_fit(config: BoxesConfig) -> bool:
        """Rings and staged outputs fit the target's shared memory."""
        return tiling_of(config).smem_bytes <= target.smem_bytes

    def registers_suffice(config: BoxesConfig) -> bool:
        """A thread holds its sums and two sets of fragments, at launch those of an instruction."""
        tiling = tiling_of(config)
        if tiling.consumers > 6:
            return False
        one = workload.vector // 2 + OF_AN_INSTRUCTION <= tiling.budget.launch
        return one and tiling.registers <= tiling.budget.consumer

    def sides_have_vectors(config: BoxesConfig) -> bool:
        """Each side has a vector row, unless there is but one."""
        return config.sides <= max(1, workload.vector_rows)

    def parts_are_one_round(config: BoxesConfig) -> bool:
        """Pieces of work of one side are parts of larger ones, one round of all blocks at most."""
        tiling = tiling_of(config)
        blocks = tiling.blocks(target)
        rest = tiling.items % blocks * config.sides
        return not config.parted or (config.sides > 1 and 0 < rest <= blocks)

    def panels_have_columns(config: BoxesConfig) -> bool:
        """No block is twice as wide as y, unless it is the narrowest."""
        tiling = tiling_of(config)
        return tiling.lines == 1 or tiling.columns < 2 * workload.n

    constraints = (
        lines_are_whole, sides_have_vectors, panels_have_columns, parts_are_one_round,
        registers_suffice, rings_fit,
    )  # fmt: skip
    return Space(BoxesConfig, knobs, constraints, lambda c: features(tiling_of(c), target))


@functools.lru_cache(maxsize=256)
def default(workload: Spmm, target: Target) -> BoxesConfig:
    """The legal configuration of least estimated time, of these the one with most boxes on the way.

    y leaves the L2 before what is read again, as in all that were measured.
    """
    legal = space(workload, target)
    some = list(legal.restricted({"streamed": (True,)}).enumerate())

    def order(config: BoxesConfig) -> tuple[float, int, int]:
        return estimate(workload, config, target), -config.b_stages, -config.stages

    return min(some, key=order)


def estimate(workload: Spmm, config: BoxesConfig, target: Target) -> float:
    """Roughly the seconds of a configuration."""
    return estimated_seconds(BoxesTiling(workload, config), target)


def build(workload: Spmm, config: BoxesConfig, target: Target) -> PrimFunc:
    """The product; parameters b, residual?, those of `boxes_specs`, y."""
    tiling = BoxesTiling(workload, config)
    long = tiling.as_long
    own = {
        "SIDES": config.sides, "TEAMS": config.teams, "TILES": config.tiles,
        "B_STAGES": config.b_stages, "STAGES": config.stages, "BLOCKS": tiling.blocks(target),
        "ITEMS": tiling.items, "GROUPS": tiling.groups,
        "K_STAGES": tiling.k_stages, "STAGE_K": STAGE_K, "DEPTH": DEPTH,
        "VECTOR": workload.vector, "SIZE": 1, "STAGES_Y": long.stages_outputs,
        "TURNS": long.turns_outputs, "PERSISTENT": True, "STREAMED": config.streamed,
        "FRAGMENTS": config.fragments, "PARTED": config.parted,
        "STAGING_BYTES": tiling.staging_bytes, "TERM_BYTES": long.term_bytes,
        "PRODUCER_REGISTERS": tiling.budget.producer, "CONSUMER_REGISTERS": tiling.budget.consumer,
    }  # fmt: skip
    source = BOXES_HEADING.replace("PRODUCTS", spmm_wgmma.products(long))
    source += RING + FINISH_ROWS + LOAD_BOXES + MULTIPLY_BOXES + BOXES_KERNEL
    functions = device_functions(tiling, "spmm_boxes", source, own, _SCHEDULE, mapped=True)
    b, *others = workload.inputs
    dims, box = [workload.n, workload.k], [LINE_BYTES, STAGE_K]
    arguments = tiled_map(b.dtype, dims, [workload.n], box, swizzle_mode(LINE_BYTES))
    boxes = Mapped(b, ENCODE_TILED, 2, arguments)
    parameters = [boxes, *others, *packed(workload, config), *workload.outputs]

    def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
        smem = builder.alloc_buffer((tiling.smem_bytes,), "uint8", scope="shared.dyn", align=1024)
        call(functions.function("spmm"), smem.data, *pointers, block, thread)

    return thread_kernel(
        parameters, tiling.blocks(target), tiling.threads, target, body, together=1,
    )  # fmt: skip


def pack(workload: Spmm, config: BoxesConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """What `pack_boxes` gives."""
    return pack_boxes(BoxesTiling(workload, config), constants)


def packed(workload: Spmm, config: BoxesConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return boxes_specs(BoxesTiling(workload, config))


_PREFERRED, _BEHIND = 11, 5
_GATHERED_SHARE = 0.9
"""Of the estimated time of gathers, which they took of tiles at three sparsities, in the mean."""


@functools.lru_cache(maxsize=256)
def preference_for(workload: Spmm, target: Target) -> int:
    """In front of the kernel that gathers rows where that should take longer.

    Products that leave blocks without a piece of work were not timed.
    """
    config = default(workload, target)
    gathered = spmm_wgmma.default(workload, target)
    filled = BoxesTiling(workload, config).items >= target.units
    other = _GATHERED_SHARE * spmm_wgmma.estimate(workload, gathered, target)
    return _PREFERRED if filled and estimate(workload, config, target) < other else _BEHIND


TEMPLATE = Template(
    "spmm_boxes", 1, matches, space, default, build, pack, packed, estimate=estimate,
    preference=_BEHIND, preference_for=preference_for,
)  # fmt: skip
