"""Products of float32 matrices through integers on any CPU, compensated for what quantising loses.

Stages quantise both matrices, multiply their integers, and compensate as the workload says.
"""

from __future__ import annotations

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cpu.residual.config import (
    ResidualCpuConfig,
    default,
    estimate,
    residual_space,
)
from autoq.templates.cpu.residual.sparse_stages import SparseStages
from autoq.templates.cpu.residual.stages import ResidualStages
from autoq.templates.cpu.residual.words import OFFSET
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.oracle.residual_quantisation import largest_integer, quantise
from autoq.templates.program import Program
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_MOST = 2**31 - 1
_PADDING = 256
"""Extents as they lie are at most rounded up to a multiple of it."""


def matches(workload: object, target: Target) -> bool:
    """Residual products whose indices and sums of bytes fit 32 bits."""
    if target.kind != "cpu" or not isinstance(workload, ResidualGemm):
        return False
    m, n, k = (side + _PADDING for side in (workload.m, workload.n, workload.k))
    sums = workload.k * OFFSET * largest_integer(workload.bits)
    return max(m * n, m * k, n * k, sums) <= _MOST


def build(workload: ResidualGemm, config: ResidualCpuConfig, target: Target) -> Program:
    """The stages; workspaces hold the integers, their sums and the lists of what is kept."""
    stages = SparseStages if workload.correction == "sparse" else ResidualStages
    return stages(workload, config, target).program()


def packed(workload: ResidualGemm, config: ResidualCpuConfig) -> tuple[TensorSpec, ...]:
    """Quantised b where it is constant, the bias padded to whole tiles, the constants of lists."""
    stages = ResidualStages(workload, config)
    specs = list(stages.quantised_b) if workload.constant_b else []
    if workload.bias:
        specs.append(TensorSpec("bias", (stages.columns.padded,), "float32"))
    if workload.correction == "sparse":
        specs += [TensorSpec(name, (1,), "float32") for name in ("threshold", "crossover")]
    return tuple(specs)


def pack(
    workload: ResidualGemm, config: ResidualCpuConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """What `packed` says."""
    tiles, arrays = ResidualStages(workload, config).columns, {}
    if workload.constant_b:
        b = np.asarray(constants["b"])
        found = quantise(b if workload.b_order == "kn" else b.T, workload.bits, axis=0)
        arrays["b_values"], arrays["b_rest"] = tiles.pack(found.values), tiles.pack(found.residual)
        arrays["b_scale"] = _padded(found.scale[0], tiles.padded)
        sums = np.abs(found.values.astype(np.int32)).sum(axis=0, dtype=np.int32)
        arrays["b_magnitude"] = _padded(sums, tiles.padded)[None]
    if workload.bias:
        arrays["bias"] = _padded(np.asarray(constants["bias"], np.float32), tiles.padded)
    for name in ("threshold", "crossover"):
        if name in constants:
            arrays[name] = np.asarray(constants[name], np.float32)
    return tuple(arrays[spec.name] for spec in packed(workload, config))


def _padded(values: np.ndarray, extent: int) -> np.ndarray:
    return np.pad(values, (0, extent - len(values)))


TEMPLATE = Template(
    "residual_gemm_cpu", 1, matches, residual_space, default, build, pack, packed,
    estimate=estimate,
)  # fmt: skip
