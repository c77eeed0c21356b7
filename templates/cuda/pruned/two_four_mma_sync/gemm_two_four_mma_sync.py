"""Products with 2:4 sparse weights on mma.sp, the sparse tensor cores of GPUs without wgmma."""

from __future__ import annotations

import numpy as np

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.device.launch.thread_kernel import indexable
from autoq.templates.cuda.pruned.two_four.view import THREAD_VALUES, two_four_product
from autoq.templates.cuda.pruned.two_four_mma_sync.config import TwoFourMmaConfig, TwoFourMmaTiling
from autoq.templates.cuda.pruned.two_four_mma_sync.cost import estimated_seconds
from autoq.templates.cuda.pruned.two_four_mma_sync.kernel import (
    build_kernel,
    epilogue_of,
    pack_all,
    packed_all,
)
from autoq.templates.cuda.pruned.two_four_mma_sync.space import two_four_mma_space
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.program import Program, Stage
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_LEAST_COMPUTE_CAPABILITY = 80
_WIDEST = TwoFourMmaConfig(4, 1, 16, 2, 4, 1)
"""What needs the most terms of an epilogue."""


def _tiling(workload: Gemm | FloatGemm, config: TwoFourMmaConfig) -> TwoFourMmaTiling:
    view = two_four_product(workload, every_form=False)
    assert view is not None
    return TwoFourMmaTiling(view, config)


def matches(workload: object, target: Target) -> bool:
    """2:4 weights of bytes or 16-bit floats, without wgmma; rows of x of whole 16 bytes.

    Rows of y are whole words, and with a residual whole vectors of four.
    """
    capable = target.compute_capability >= _LEAST_COMPUTE_CAPABILITY and not target.has_wgmma
    view = two_four_product(workload, every_form=False) if capable else None
    if view is None:
        return False
    tiling, work = TwoFourMmaTiling(view, _WIDEST), view.workload
    whole = work.k * tiling.size % 16 == 0 and work.n * view.out_bytes % 4 == 0
    added = view.epilogue.residual_dtype is None or work.n % THREAD_VALUES == 0
    arrays = (work.inputs[0].shape, work.outputs[0].shape, (tiling.terms, work.k))
    return whole and added and epilogue_of(tiling).supported and indexable(*arrays)


def space(workload: Gemm | FloatGemm, target: Target) -> Space[TwoFourMmaConfig]:
    """Rings and sums that fit a multiprocessor."""
    return two_four_mma_space(_tiling(workload, _WIDEST).view, target)


def default(workload: Gemm | FloatGemm, target: Target) -> TwoFourMmaConfig:
    """The legal configuration of least estimated time, with the most stages."""
    legal = space(workload, target).enumerate()
    return min(legal, key=lambda config: (estimate(workload, config, target), -config.stages))


def estimate(workload: Gemm | FloatGemm, config: TwoFourMmaConfig, target: Target) -> float:
    """Roughly the seconds of a configuration."""
    return estimated_seconds(_tiling(workload, config), target)


def build(workload: Gemm | FloatGemm, config: TwoFourMmaConfig, target: Target) -> Program:
    """One launch; parameters x, further inputs, `packed`, y."""
    kernel = build_kernel(_tiling(workload, config), target)
    names = tuple(spec.name for spec in (*workload.inputs, *packed(workload, config)))
    return Program((Stage(kernel, names, (workload.outputs[0].name,)),))


def pack(
    workload: Gemm | FloatGemm, config: TwoFourMmaConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """The weight with its metadata, and what the epilogue reads."""
    return pack_all(_tiling(workload, config), constants)


def packed(workload: Gemm | FloatGemm, config: TwoFourMmaConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return packed_all(_tiling(workload, config))


TEMPLATE = Template(
    "gemm_two_four_mma_sync", 1, matches, space, default, build, pack, packed, estimate=estimate
)
