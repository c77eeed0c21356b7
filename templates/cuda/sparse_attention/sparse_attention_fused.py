"""Attention under a sparse mask in one kernel behind the quantisation: scores are never in memory.

Two small kernels quantise q, k and v. The third sends all keys and values of a pair through a ring
in shared memory, from where groups of eight queries gather those that they see.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm.tirx.script.builder import ir as builder

from autoq.search.space import Space
from autoq.templates.base import Template
from autoq.templates.cuda.device.launch.thread_kernel import call, thread_kernel
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.sparse_attention.attend_source import ATTEND_SOURCE
from autoq.templates.cuda.sparse_attention.block_source import BLOCK_SOURCE
from autoq.templates.cuda.sparse_attention.config import (
    MEASURED_PARTS,
    QUANTISE_THREADS,
    FusedConfig,
    FusedTiling,
)
from autoq.templates.cuda.sparse_attention.quantise_source import QUANTISE_SOURCE
from autoq.templates.cuda.sparse_attention.schedule import (
    PARTLY,
    pack_schedule,
    schedule_specs,
)
from autoq.templates.operators.sparse_attention import SparseAttention
from autoq.templates.program import Program, Stage, Workspace
from autoq.templates.target import Target
from autoq.templates.tensor_spec import TensorSpec
from autoq.templates.workload import Constants

# mma.sync of 16 x 8 x 32 bytes, and cp.async.
_LEAST_COMPUTE_CAPABILITY = 80
_MOST_ELEMENTS = 1 << 31
_LEAST_WARPS = 4
_DEFAULT_SLOT = 256


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
        return config.slot * config.slots * tiling.row_bytes // 16 <= PARTLY

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
            "registers": float(tiling.registers),
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
    """As many queries a block as fill the target, then as many keys in the ring as fit."""

    def cost(config: FusedConfig) -> tuple[float, ...]:
        tiling = FusedTiling(workload, config)
        resident = max(1, tiling.resident(target))
        waves = -(-tiling.blocks // (target.units * resident))
        queries = waves * resident * tiling.of_block
        window = min(tiling.window * config.slot, tiling.padded_keys)
        few = max(0, 16 - config.warps * resident)
        return (queries + 4 * few, -tiling.of_block, abs(config.slot - _DEFAULT_SLOT), -window,
                abs(config.headroom - 1), config.ahead)  # fmt: skip

    return min(space(workload, target).enumerate(), key=cost)


def _functions(tiling: FusedTiling) -> tuple[DeviceNamespace, DeviceNamespace]:
    """The device functions of quantisation and of attention."""
    workload, config = tiling.workload, tiling.config
    shared = {
        "WIDE": tiling.wide, "DEPTH": workload.depth, "BRAIN": workload.dtype == "bfloat16",
        "KEYS": workload.keys, "PADDED_KEYS": tiling.padded_keys, "QUERIES": workload.queries,
        "GROUP_ROWS": tiling.group_rows,
    }  # fmt: skip
    own = {
        "PARTS": MEASURED_PARTS, "THREADS": QUANTISE_THREADS,
        "MOST": 2 ** (workload.qkv_bits - 1) - 1,
    }  # fmt: skip
    most_share = (2**workload.softmax_bits - 1) / 2**config.headroom
    source = f"constexpr float LOG_TOP = {math.log2(most_share):.9g}f;\n{ATTEND_SOURCE}"
    attend = {
        "WARPS": config.warps, "GROUPS": config.groups, "SLOT": config.slot,
        "SLOTS": config.slots, "AHEAD": config.ahead, "SOFTMAX_BITS": workload.softmax_bits,
        "PARTS_OF_QUERIES": tiling.parts, "PARTLY": PARTLY,
    }  # fmt: skip
    return (
        DeviceNamespace("sparse_quantise", QUANTISE_SOURCE, {}, {**shared, **own}),
        DeviceNamespace("sparse_attend", source + BLOCK_SOURCE, {}, {**shared, **attend}),
    )


def _workspaces(tiling: FusedTiling) -> tuple[TensorSpec, ...]:
    """What quantisation leaves: maxima, then bytes and steps."""
    pairs, wide = tiling.workload.pairs, tiling.wide
    return (
        TensorSpec("maxima", (pairs, MEASURED_PARTS, 2), "int32"),
        TensorSpec("q_bytes", (pairs, tiling.group_rows, wide), "int8"),
        TensorSpec("q_steps", (pairs, tiling.group_rows), "float32"),
        TensorSpec("kv_bytes", (pairs, tiling.padded_keys, 2 * wide), "int8"),
        TensorSpec("kv_steps", (pairs, 2), "float32"),
    )


def build(workload: SparseAttention, config: FusedConfig, target: Target) -> Program:
    """Three stages: largest magnitudes, bytes, attention."""
    tiling = FusedTiling(workload, config)
    quantise, attend = _functions(tiling)
    q, k, v = workload.inputs
    maxima, q_bytes, q_steps, kv_bytes, kv_steps = _workspaces(tiling)
    schedule, (y,) = packed(workload, config), workload.outputs
    chunks, threads = tiling.wide // 16, QUANTISE_THREADS
    of_kv = -(-tiling.padded_keys * 2 * chunks // threads)
    of_q = -(-tiling.group_rows * chunks // threads)

    def stage(
        function: Any, reads: Sequence[TensorSpec], writes: Sequence[TensorSpec],
        blocks: int, threads: int, smem_bytes: int,
    ) -> Stage:  # fmt: skip
        def body(pointers: Sequence[Any], block: Any, thread: Any) -> None:
            if not smem_bytes:
                call(function, *pointers, block, thread)
                return
            smem = builder.alloc_buffer((smem_bytes,), "uint8", scope="shared.dyn", align=128)
            call(function, smem.data, *pointers, block, thread)

        kernel = thread_kernel([*reads, *writes], blocks, threads, target, body)
        names = ([spec.name for spec in specs] for specs in (reads, writes))
        return Stage(kernel, *(tuple(each) for each in names))

    stages = (
        stage(quantise.function("measure"), (k, v), (maxima,),
              workload.pairs * MEASURED_PARTS, threads, threads // 32 * 8),
        stage(quantise.function("quantise"), (q, k, v, maxima),
              (q_bytes, q_steps, kv_bytes, kv_steps), workload.pairs * (of_kv + of_q), threads, 0),
        stage(attend.function("attend"), (q_bytes, q_steps, kv_bytes, kv_steps, *schedule), (y,),
              tiling.blocks, tiling.threads, tiling.smem_bytes),
    )  # fmt: skip
    return Program(stages, tuple(Workspace(spec) for spec in _workspaces(tiling)))


def pack(
    workload: SparseAttention, config: FusedConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """The schedule and the factor of scores."""
    schedule = pack_schedule(FusedTiling(workload, config), constants)
    return (*schedule, np.ascontiguousarray(constants["scale"], np.float32))


def packed(workload: SparseAttention, config: FusedConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return (*schedule_specs(FusedTiling(workload, config)), TensorSpec("scale", (1,), "float32"))


TEMPLATE = Template("sparse_attention_fused", 1, matches, space, default, build, pack, packed)
