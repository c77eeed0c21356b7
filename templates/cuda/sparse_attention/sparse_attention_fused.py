"""Attention under a sparse mask in one kernel: scores are never in memory.

Blocks quantise a share of k and v each, and meet. Then they quantise queries, keep them, and send
all keys and values of a pair through a ring in shared memory, from where groups of eight queries
gather those that they see. Where blocks cannot hold all of k and v at once, one or two kernels in
front quantise these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.device.functions import DeviceFunction
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.sparse_attention.attend_source import ATTEND_SOURCE
from autoq.templates.cuda.sparse_attention.block_source import BLOCK_SOURCE
from autoq.templates.cuda.sparse_attention.config import (
    READ_AHEAD,
    FusedConfig,
    FusedTiling,
)
from autoq.templates.cuda.sparse_attention.cost import estimated_seconds
from autoq.templates.cuda.sparse_attention.quantisation import stage
from autoq.templates.cuda.sparse_attention.quantise_source import VALUES_SOURCE
from autoq.templates.cuda.sparse_attention.ring_source import RING_SOURCE
from autoq.templates.cuda.sparse_attention.rounds_source import ROUNDS_SOURCE
from autoq.templates.cuda.sparse_attention.schedule import (
    MOST_PLACES,
    OF_PLACE,
    pack_schedule,
    schedule_specs,
)
from autoq.templates.cuda.sparse_attention.team_source import TEAM_SOURCE
from autoq.templates.cuda.sparse_attention.teams import Teams, copies_in_bulk
from autoq.templates.operators.sparse_attention import SparseAttention
from autoq.templates.program import Program, Workspace
from autoq.templates.target import Target
from autoq.templates.workload import Constants

# mma.sync of 16 x 8 x 32 bytes, and cp.async.
_LEAST_COMPUTE_CAPABILITY = 80
_MOST_ELEMENTS = 1 << 31
_LEAST_WARPS = 4
_SCALE = TensorSpec("scale", (1,), "float32")


def matches(workload: object, target: Target) -> bool:
    """Every sparse attention whose arrays have int32 indices, where a small ring fits."""
    if not isinstance(workload, SparseAttention) or target.kind != "cuda":
        return False
    sizes = (math.prod(spec.shape) for spec in (*workload.inputs, *workload.outputs))
    return target.compute_capability >= _LEAST_COMPUTE_CAPABILITY and max(sizes) < _MOST_ELEMENTS


def space(workload: SparseAttention, target: Target) -> Space[FusedConfig]:
    """Blocks that fit a multiprocessor."""
    knobs = {
        "warps": (4, 8, 16),
        "groups": (1, 2, 4),
        "slot": (64, 128, 256, 512),
        "slots": (2, 3, 4, 6, 12),
        "ahead": (1, 2),
        "headroom": (0, 1, 2),
    }

    def tiling_of(config: FusedConfig) -> FusedTiling:
        return FusedTiling(workload, config)

    def groups_see_keys(config: FusedConfig) -> bool:
        """Not all slots are on their way."""
        return config.ahead < config.slots

    def shared_memory_suffices(config: FusedConfig) -> bool:
        """The queries and the ring fit the target."""
        return tiling_of(config).smem_bytes <= target.smem_bytes

    def registers_suffice(config: FusedConfig) -> bool:
        """A multiprocessor has registers and threads for a block."""
        return tiling_of(config).resident(target) > 0

    def places_are_short(config: FusedConfig) -> bool:
        """A place in the ring is a number of 15 bits."""
        tiling = tiling_of(config)
        return config.slot * config.slots * tiling.row_bytes // 16 <= MOST_PLACES

    def blocks_have_queries(config: FusedConfig) -> bool:
        """A block has no more than twice the groups that there are, unless it is the smallest."""
        smallest = config.warps == _LEAST_WARPS and config.groups == 1
        return smallest or tiling_of(config).of_block < 2 * workload.groups

    def features(config: FusedConfig) -> Mapping[str, float]:
        tiling = tiling_of(config)
        resident = max(1, tiling.resident(target))
        return {
            "blocks": float(tiling.blocks),
            "waves": tiling.blocks / (target.units * resident),
            "smem_bytes": float(tiling.smem_bytes),
            "registers": float(tiling.registers(target)),
            "window": float(tiling.window * config.slot),
            "keys_read": float(tiling.blocks * tiling.padded_keys),
        }

    constraints = (
        groups_see_keys,
        places_are_short,
        shared_memory_suffices,
        registers_suffice,
        blocks_have_queries,
    )
    return Space(FusedConfig, knobs, constraints, features)


def default(workload: SparseAttention, target: Target) -> FusedConfig:
    """The legal configuration of least estimated time, of equals one with many keys there."""

    def cost(config: FusedConfig) -> tuple[float, ...]:
        window = FusedTiling(workload, config).window * config.slot
        seconds = round(estimate(workload, config, target), 7)
        return (seconds, -min(window, workload.keys), abs(config.headroom - 1))

    return min(space(workload, target).enumerate(), key=cost)


def estimate(workload: SparseAttention, config: FusedConfig, target: Target) -> float:
    """Roughly the seconds of a configuration."""
    return estimated_seconds(FusedTiling(workload, config), target)


def _attend(tiling: FusedTiling, target: Target, teams: Teams | None) -> DeviceFunction:
    """The device function of attention, which makes bytes of keys and values where teams do."""
    workload, config = tiling.workload, tiling.config
    most_share = (2**workload.softmax_bits - 1) / 2**config.headroom
    source = f"constexpr float LOG_TOP = {math.log2(most_share):.9g}f;\n{ATTEND_SOURCE}"
    own = {
        "WARPS": config.warps, "GROUPS": config.groups,
        "SLOTS": config.slots, "AHEAD": config.ahead, "SOFTMAX_BITS": workload.softmax_bits,
        "PARTS_OF_QUERIES": tiling.parts, "READ_AHEAD": READ_AHEAD, "HEADROOM": config.headroom,
        "OF_PLACE": 2 * OF_PLACE, "BULK": copies_in_bulk(target),
    }  # fmt: skip
    whole, name = VALUES_SOURCE + source + RING_SOURCE + BLOCK_SOURCE, "attend"
    if teams:
        blocks = min(tiling.blocks, target.units)
        own |= {"BLOCKS": blocks, "ITEMS": tiling.blocks, "RELEASES": 1, **teams.constants}
        whole, name = whole + TEAM_SOURCE + ROUNDS_SOURCE, "quantise_and_attend"
    constants = {**tiling.quantisation.constants, **own}
    return DeviceNamespace("sparse_attend", whole, {}, constants).function(name)


def build(workload: SparseAttention, config: FusedConfig, target: Target) -> Program:
    """One stage where its blocks hold all keys and values, or one behind those that make bytes."""
    tiling = FusedTiling(workload, config)
    quantisation, teams = tiling.quantisation, tiling.teams(target)
    function, schedule = _attend(tiling, target, teams), (*schedule_specs(tiling), _SCALE)
    if teams:
        reads = (*workload.inputs, quantisation.places, *schedule)
        writes = (*workload.outputs, *quantisation.writes, teams.meeting.spec)
        shape = (min(tiling.blocks, target.units), tiling.threads, tiling.smem_bytes)
        attend = stage(function, reads, writes, shape, target, True)
        return Program((attend,), (teams.meeting, *map(Workspace, quantisation.writes)))
    reads = (workload.inputs[0], *quantisation.writes, *schedule)
    shape = (tiling.blocks, tiling.threads, tiling.smem_bytes)
    attend = stage(function, reads, workload.outputs, shape, target)
    return Program((*quantisation.stages(target), attend), quantisation.workspaces(target))


def pack(
    workload: SparseAttention, config: FusedConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """The schedule and the factor of scores."""
    schedule = pack_schedule(FusedTiling(workload, config), constants)
    return (*schedule, np.ascontiguousarray(constants["scale"], np.float32))


def packed(workload: SparseAttention, config: FusedConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    tiling = FusedTiling(workload, config)
    return (*schedule_specs(tiling), tiling.quantisation.places, _SCALE)


TEMPLATE = Template(
    "sparse_attention_fused", 4, matches, space, default, build, pack, packed, estimate=estimate
)
