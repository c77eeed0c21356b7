"""Sparse products of nibbles on tensor cores that multiply them as they are, sm_80 to sm_89.

The panel kernel with b in its panel as it lies, two columns a byte: panels of half the size, half
the gathers, and one product for 64 vectors. Values of the sparse side are digits of 4 bits.
"""

from __future__ import annotations

import functools

import numpy as np
from tvm.tirx import PrimFunc

from autoq.search.space import Space
from autoq.templates.arrays.storage import is_four_bit
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.sparse import spmm_panel
from autoq.templates.cuda.sparse.config import NibbleTiling, PanelConfig
from autoq.templates.cuda.sparse.cost import estimated_seconds
from autoq.templates.cuda.sparse.functions import pack_all, packed_all
from autoq.templates.cuda.sparse.nibble_source import NIBBLE_SOURCE
from autoq.templates.operators.spmm import Spmm
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_ALIGNED_COLUMNS = 32
"""Columns of 16 bytes of a row of b."""


def matches(workload: object, target: Target) -> bool:
    """Products with b of 4 bits, rows of whole 16 bytes, whose panel fits shared memory."""
    return (
        isinstance(workload, Spmm)
        and target.has_int4_mma
        and is_four_bit(workload.in_dtype)
        and workload.n % _ALIGNED_COLUMNS == 0
        and spmm_panel.matches(workload, target)
        and spmm_panel.panel_fits(workload, target, NibbleTiling)
    )


def space(workload: Spmm, target: Target) -> Space[PanelConfig]:
    """That of `spmm_panel`, with nibbles in the panel; nothing is gathered from the L2."""
    return spmm_panel.space_of(workload, target, NibbleTiling)


def default(workload: Spmm, target: Target) -> PanelConfig:
    """The legal configuration of least estimated time."""
    legal = space(workload, target).enumerate()
    return min(legal, key=lambda config: estimate(workload, config, target))


def estimate(workload: Spmm, config: PanelConfig, target: Target) -> float:
    """Roughly the seconds of a configuration."""
    return estimated_seconds(NibbleTiling(workload, config), target)


def build(workload: Spmm, config: PanelConfig, target: Target) -> PrimFunc:
    """The product; parameters as those of `spmm_panel`."""
    return spmm_panel.build_panel(
        NibbleTiling(workload, config), "spmm_nibbles", NIBBLE_SOURCE, target
    )


def pack(workload: Spmm, config: PanelConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """What `pack_all` gives."""
    return pack_all(NibbleTiling(workload, config), constants)


def packed(workload: Spmm, config: PanelConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return packed_all(NibbleTiling(workload, config))


_PREFERRED, _BEHIND = 7, -5


@functools.lru_cache(maxsize=256)
def preference_for(workload: Spmm, target: Target) -> int:
    """In front of `spmm_panel` where that should take longer: it may gather from the L2."""
    other = spmm_panel.default(workload, target)
    own = estimate(workload, default(workload, target), target)
    return _PREFERRED if own < spmm_panel.estimate(workload, other, target) else _BEHIND


TEMPLATE = Template(
    "spmm_nibbles", 1, matches, space, default, build, pack, packed, estimate=estimate,
    preference=_PREFERRED, preference_for=preference_for,
)  # fmt: skip
