"""Attention under a sparse mask in kernels of its own: Magicube's quantised layer.

Sampled products with dequantisation, a softmax of 16-bit floats that quantises its shares, and
sparse products with dequantisation (Li, Osawa, Hoefler, SC 2022, figure 16). Scores and shares go
through memory, which `sparse_attention_fused` spares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.device.memory.packed_values import DeviceNamespace
from autoq.templates.cuda.sparse_attention import sparse_attention_fused
from autoq.templates.cuda.sparse_attention.quantisation import Quantisation, stage
from autoq.templates.cuda.sparse_attention.staged_source import STAGED_SOURCE
from autoq.templates.operators.sparse_attention import GROUP, SparseAttention
from autoq.templates.program import Program, Workspace
from autoq.templates.sparse.strided import to_strided
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_STRIDE = 32
_MOST_ITEMS = 1 << 31


@dataclass(frozen=True)
class StagedConfig:
    """Configuration of the staged kernels.

    warps: warps of a block, each with a step of scores or a group of queries.
    """

    warps: int


def matches(workload: object, target: Target) -> bool:
    """What the fused kernel takes, where steps of all pairs have int32 indices."""
    if not sparse_attention_fused.matches(workload, target):
        return False
    assert isinstance(workload, SparseAttention)
    return workload.pairs * _steps(workload) * 32 < _MOST_ITEMS


def _steps(workload: SparseAttention) -> int:
    """Most steps of all groups, at least one."""
    most = min(workload.structure.longest_row, workload.keys)
    of_longest = workload.groups * -(-most // _STRIDE)
    return max(1, min(of_longest, workload.structure.blocks // _STRIDE + workload.groups))


def space(workload: SparseAttention, target: Target) -> Space[StagedConfig]:
    """Every block size."""

    def features(config: StagedConfig) -> Mapping[str, float]:
        blocks = workload.pairs * workload.groups / config.warps
        return {"blocks": blocks, "waves": blocks / target.units}

    return Space(StagedConfig, {"warps": (2, 4, 8)}, (), features)


def default(workload: SparseAttention, target: Target) -> StagedConfig:
    """Four warps."""
    return StagedConfig(4)


def build(workload: SparseAttention, config: StagedConfig, target: Target) -> Program:
    """Five stages: largest magnitudes, bytes, scores, shares, values."""
    quantisation = Quantisation(workload, workload.keys)
    steps, planes, pairs = _steps(workload), workload.softmax_bits // 8, workload.pairs
    own = {
        "SOFTMAX_BITS": workload.softmax_bits, "MOST_SHARE": 2**workload.softmax_bits - 1,
        "WARPS": config.warps, "STEPS": steps, "PAIRS": pairs, "GROUPS": workload.groups,
    }  # fmt: skip
    constants = {**quantisation.constants, **own}
    functions = DeviceNamespace("sparse_staged", STAGED_SOURCE, {}, constants)
    scores = TensorSpec("scores", (pairs, steps, GROUP, _STRIDE), "float16")
    shares = TensorSpec("shares", (pairs, steps, planes, GROUP, _STRIDE), "uint8")
    factors = TensorSpec("factors", (pairs, quantisation.group_rows), "float32")
    _, _, kv_bytes, kv_steps = quantisation.writes
    groups, starts, columns, kept, scale = packed(workload, config)
    threads = 32 * config.warps
    of_steps = (-(-pairs * steps // config.warps), threads, 0)
    of_groups = (-(-pairs * workload.groups // config.warps), threads, 0)
    stages = (
        *quantisation.stages(target),
        stage(functions.function("score"),
              (*quantisation.writes, groups, columns, kept, scale), (scores,), of_steps, target),
        stage(functions.function("share"), (scores, kv_steps, starts), (shares, factors),
              of_groups, target),
        stage(functions.function("weigh"), (shares, factors, kv_bytes, starts, columns),
              workload.outputs, of_groups, target),
    )  # fmt: skip
    between = (quantisation.maxima, *quantisation.writes, scores, shares, factors)
    return Program(stages, tuple(map(Workspace, between)))


def pack(
    workload: SparseAttention, config: StagedConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """The mask in strides of 32 keys, and the factor of scores.

    groups: of each stride, -1 for those that the mask has not. starts: the first stride of each
    group, and the end. kept: of each query of a stride's group, which of its keys it sees.
    """
    mask = workload.mask(constants)
    strided = to_strided(mask, _STRIDE)
    steps, found = _steps(workload), len(strided.indices) // _STRIDE
    counts = -(-mask.lengths // _STRIDE)
    groups = np.full(steps, -1, np.int64)
    groups[:found] = np.repeat(np.arange(workload.groups), counts)
    columns = np.zeros((steps, _STRIDE), np.int64)
    columns[:found] = strided.indices.reshape(-1, _STRIDE)
    kept = np.zeros((steps, GROUP), np.uint32)
    bits = np.packbits(strided.values != 0, axis=2, bitorder="little")
    kept[:found] = np.ascontiguousarray(bits).view("<u4").reshape(-1, GROUP)
    starts = np.concatenate([[0], np.cumsum(counts)])
    arrays = (groups, starts, columns, kept, constants["scale"])
    specs = packed(workload, config)
    return tuple(
        np.ascontiguousarray(array, spec.dtype) for array, spec in zip(arrays, specs, strict=True)
    )


def packed(workload: SparseAttention, config: StagedConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    steps = _steps(workload)
    return (
        TensorSpec("groups", (steps,), "int32"),
        TensorSpec("starts", (workload.groups + 1,), "int32"),
        TensorSpec("columns", (steps, _STRIDE), "int32"),
        TensorSpec("kept", (steps, GROUP), "uint32"),
        TensorSpec("scale", (1,), "float32"),
    )


TEMPLATE = Template(
    "sparse_attention_staged", 1, matches, space, default, build, pack, packed, preference=-10
)
