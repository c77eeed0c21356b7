"""Products with 2:4 sparse weights on wgmma's sparse tensor cores."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from autoq.search.space import Space
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.composed.pruned_product import takes_constants_alone
from autoq.templates.cuda.device.launch.thread_kernel import indexable
from autoq.templates.cuda.pruned.two_four.config import TwoFourConfig, TwoFourTiling
from autoq.templates.cuda.pruned.two_four.cost import estimated_seconds
from autoq.templates.cuda.pruned.two_four.space import COLUMNS, two_four_space
from autoq.templates.cuda.pruned.two_four.view import TwoFourProduct, two_four_product
from autoq.templates.epilogue import Epilogue
from autoq.templates.epilogue.cuda.short_forms.allowed import convertible
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import Target
from autoq.templates.workload import Constants

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc


def _view(workload: Gemm | FloatGemm) -> TwoFourProduct:
    view = two_four_product(workload, every_form=True)
    assert view is not None
    return view


def _finished(workload: Gemm | FloatGemm) -> bool:
    """Whether constants of columns alone follow sums, or bytes that are added to its own bytes."""
    if isinstance(workload, Gemm):
        epilogue = workload.epilogue
        if epilogue.residual_dtype in ("int8", "uint8") and convertible(epilogue):
            workload = replace(workload, epilogue=Epilogue(epilogue.out_dtype))
    return takes_constants_alone(workload)


def matches(workload: object, target: Target) -> bool:
    """2:4 weights of bytes or 16-bit floats, on wgmma; rows of x of whole 16 bytes.

    Rows of y are whole words, and no scales of rows follow the sums. A residual is one of bytes,
    added to the bytes that the sums have become.
    """
    view = two_four_product(workload, every_form=True)
    if view is None or not target.has_wgmma or not _finished(view.workload):
        return False
    work = view.workload
    tiling = TwoFourTiling(view, TwoFourConfig(COLUMNS[-1], 1, 1, 2, 4))
    whole = work.k * view.value.bytes % 16 == 0 and work.n * view.out_bytes % 4 == 0
    arrays = (work.inputs[0].shape, work.outputs[0].shape, (tiling.terms, work.k))
    from autoq.templates.cuda.pruned.two_four.kernel import epilogue_of

    return whole and epilogue_of(tiling).supported and indexable(*arrays)


def space(workload: Gemm | FloatGemm, target: Target) -> Space[TwoFourConfig]:
    """Rings and sums that fit a multiprocessor."""
    return two_four_space(_view(workload), target)


def default(workload: Gemm | FloatGemm, target: Target) -> TwoFourConfig:
    """The legal configuration of least estimated time, with the most stages."""
    legal = space(workload, target).enumerate()
    return min(legal, key=lambda config: (estimate(workload, config, target), -config.stages))


def estimate(workload: Gemm | FloatGemm, config: TwoFourConfig, target: Target) -> float:
    """Roughly the seconds of a configuration."""
    return estimated_seconds(TwoFourTiling(_view(workload), config), target)


def build(
    workload: Gemm | FloatGemm, config: TwoFourConfig, target: Target, ahead: int = 0
) -> PrimFunc:
    """The product; parameters x, the arrays of `packed`, y; ahead as in `Template.program`."""
    from autoq.templates.cuda.pruned.two_four.kernel import build_kernel

    return build_kernel(TwoFourTiling(_view(workload), config), target, ahead)


def pack(
    workload: Gemm | FloatGemm, config: TwoFourConfig, constants: Constants
) -> tuple[np.ndarray, ...]:
    """The weight and its metadata, and what the epilogue reads."""
    from autoq.templates.cuda.pruned.two_four.kernel import pack_all

    return pack_all(TwoFourTiling(_view(workload), config), constants)


def packed(workload: Gemm | FloatGemm, config: TwoFourConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    from autoq.templates.cuda.pruned.two_four.kernel import packed_all

    return packed_all(TwoFourTiling(_view(workload), config))


TEMPLATE = Template(
    "gemm_two_four", 1, matches, space, default, build, pack, packed, estimate=estimate,
    looks_ahead=True,
)  # fmt: skip
