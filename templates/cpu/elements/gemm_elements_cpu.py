"""Products with single weights on any CPU, of bytes and of float32."""

from __future__ import annotations

import numpy as np
from tvm.tirx import PrimFunc

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cpu.elements_kernel import (
    ElementsCpuConfig,
    ElementsCpuTiling,
    elements_cpu_default,
    elements_cpu_kernel,
    elements_cpu_space,
)
from autoq.templates.cpu.row_epilogue import finishes_rows
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.sparsity import ELEMENTS
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_MOST_KEPT = {"float32": 0.5}
_MOST_BYTES = 0.25
"""The share of a weight above which dense products of vectors take less time."""


def matches(workload: object, target: Target) -> bool:
    """Weights of few single values, of bytes or float32."""
    if not isinstance(workload, Gemm) or workload.sparsity is None:
        return False
    most = _MOST_KEPT.get(workload.in_dtype, _MOST_BYTES) * workload.n * workload.k
    few = workload.sparsity.structure.blocks <= most
    return few and workload.sparsity.pattern == ELEMENTS and finishes_rows(workload, target)


def _tiling(workload: Gemm, config: ElementsCpuConfig) -> ElementsCpuTiling:
    assert workload.sparsity is not None
    return ElementsCpuTiling(workload, workload.sparsity.structure, config)


def build(workload: Gemm, config: ElementsCpuConfig, target: Target) -> PrimFunc:
    """The product; parameters x, further inputs, those of `ElementsCpuTiling.specs`, y."""
    return elements_cpu_kernel(_tiling(workload, config))


def pack(workload: Gemm, config: ElementsCpuConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """What `ElementsCpuTiling.pack` gives."""
    return _tiling(workload, config).pack(constants)


def packed(workload: Gemm, config: ElementsCpuConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return _tiling(workload, config).specs()


TEMPLATE = Template(
    "gemm_elements_cpu", 1, matches, elements_cpu_space, elements_cpu_default, build, pack, packed,
    preference=-100,
)  # fmt: skip
