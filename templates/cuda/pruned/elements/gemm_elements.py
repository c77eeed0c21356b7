"""Products with single weights on CUDA cores: rows of x are gathered from panels in shared memory.

A weight of few values, wherever they are, is element-wise sparse. Activations are transposed first,
so that what a weight multiplies is a row. A block keeps rows of a few columns in shared memory, a
chunk of them at a time, and the sums of its outputs in registers.
"""

from __future__ import annotations

import functools

import numpy as np

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.composed.pruned_product import pruned_product
from autoq.templates.cuda.device.memory.turn import turn_kernel
from autoq.templates.cuda.pruned.elements.config import ElementsConfig, ElementsTiling
from autoq.templates.cuda.pruned.elements.cost import estimated_seconds
from autoq.templates.cuda.pruned.elements.kernel import (
    elements_kernel,
    pack_elements,
    packed_elements,
    turned_spec,
)
from autoq.templates.cuda.pruned.elements.space import (
    computes_elements,
    elements_default,
    elements_space,
)
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.program import Program, Stage, Workspace
from autoq.templates.sparse.sparsity import ELEMENTS
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_TURNED = "turned_x"
_MOST_KEPT = {1: 0.25, 2: 0.25, 4: 0.75}
"""The share of a weight above which a dense product is faster, by the bytes of a value."""


def _tiling(workload: Gemm | FloatGemm, config: ElementsConfig) -> ElementsTiling:
    view = pruned_product(workload, ELEMENTS)
    assert view is not None
    return ElementsTiling(view, view.sparsity.structure, config)


def matches(workload: object, target: Target) -> bool:
    """Weights of few single values, of bytes, of 16-bit floats or of float32."""
    view = pruned_product(workload, ELEMENTS)
    if view is None or target.kind != "cuda":
        return False
    structure = view.sparsity.structure
    few = structure.blocks <= _MOST_KEPT[view.value.bytes] * view.n * view.k
    return few and computes_elements(view, structure, target)


def space(workload: Gemm | FloatGemm, target: Target) -> Space[ElementsConfig]:
    """Panels and sums that fit a multiprocessor."""
    return elements_space(functools.partial(_tiling, workload), target)


def default(workload: Gemm | FloatGemm, target: Target) -> ElementsConfig:
    """The legal configuration of least estimated time."""
    return elements_default(functools.partial(_tiling, workload), target)


def estimate(workload: Gemm | FloatGemm, config: ElementsConfig, target: Target) -> float:
    """Roughly the seconds of a configuration."""
    return estimated_seconds(_tiling(workload, config), target)


def build(workload: Gemm | FloatGemm, config: ElementsConfig, target: Target) -> Program:
    """The transposition of x, then the product; parameters x, further inputs, `packed`, y."""
    tiling = _tiling(workload, config)
    x, *others = workload.inputs
    turned = turned_spec(tiling, _TURNED)
    reads = (_TURNED, *(spec.name for spec in (*others, *packed(workload, config))))
    return Program(
        (
            Stage(turn_kernel(x, turned, target), (x.name,), (_TURNED,)),
            Stage(elements_kernel(tiling, None, target), reads, (workload.outputs[0].name,)),
        ),
        (Workspace(turned),),
    )


def pack(
    workload: Gemm | FloatGemm, config: ElementsConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """What `pack_elements` gives."""
    return pack_elements(_tiling(workload, config), constants)


def packed(workload: Gemm | FloatGemm, config: ElementsConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return packed_elements(_tiling(workload, config))


TEMPLATE = Template(
    "gemm_elements", 1, matches, space, default, build, pack, packed, estimate=estimate,
    preference=-100,
)  # fmt: skip
