"""Sparse products of short vectors by the kernel of long ones: neighbouring vectors are joined.

A column that any of some vector rows names is gathered and turned once for all of them, and wgmma
multiplies it by their values, which are 0 where a row has none. By these zeros a matrix is as large
as if it were of long vectors, so that this pays where there are many vectors or few columns of b.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.tirx import PrimFunc

from autoq.search.lanes import choose
from autoq.search.space import Space
from autoq.templates.arrays.element import element
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.base import Template
from autoq.templates.cuda.sparse import spmm_online, spmm_panel, spmm_split
from autoq.templates.cuda.sparse.wgmma import spmm_wgmma
from autoq.templates.cuda.sparse.wgmma.config import LongConfig, LongTiling
from autoq.templates.cuda.sparse.wgmma.cost import features
from autoq.templates.operators.spmm import Spmm
from autoq.templates.sparse.structure import Structure
from autoq.templates.sparse.vector_matrix import regrouped
from autoq.templates.target import Target
from autoq.templates.workload import Constants

_JOINED = (32, 64, 128)
"""Rows of a joined vector."""

_UNTUNED: dict[str, tuple[bool | int, ...]] = {
    "bulk": (0,), "streamed": (False,), "whole_stages": (True,),
}  # fmt: skip

_BEHIND, _PREFERRED = -10, 8
"""Preferences: where other kernels should be faster, and where this should."""


@dataclass(frozen=True)
class JoinedConfig(LongConfig):
    """Configuration of the kernel of long vectors, and how long they are.

    vector: rows of a joined vector, a multiple of those of the matrix.
    """

    vector: int = _JOINED[-1]


def joined(workload: Spmm, vector: int) -> Spmm:
    """The same product in longer vectors: a class of each matrix's joined ones."""
    of, rows = workload.structure, -(-workload.m // vector)
    together = vector // workload.vector
    longest = min(workload.k, of.longest_row * together)
    blocks = min(of.blocks, rows * longest)
    mean = min(longest, of.mean_row * together)
    return dataclasses.replace(workload, vector=vector, structure=Structure(blocks, mean, longest))


def expected(workload: Spmm, vector: int) -> Spmm:
    """The same with as many joined vectors as rows of columns at random have in the mean."""
    most = joined(workload, vector)
    share = min(1.0, workload.structure.blocks / (workload.vector_rows * workload.k))
    named = round(workload.k * (1 - (1 - share) ** (vector // workload.vector)))
    mean = max(1, min(named, most.structure.longest_row))
    blocks = min(most.structure.blocks, most.vector_rows * mean)
    return dataclasses.replace(most, structure=Structure(blocks, mean, mean))


def _lengths(workload: Spmm, target: Target) -> tuple[int, ...]:
    """Rows of joined vectors that the kernel of long ones takes."""
    longer = (rows for rows in _JOINED if rows % workload.vector == 0 and rows > workload.vector)
    return tuple(rows for rows in longer if spmm_wgmma.matches(joined(workload, rows), target))


def matches(workload: object, target: Target) -> bool:
    """Products that `spmm_wgmma` computes once their vectors are longer."""
    return isinstance(workload, Spmm) and bool(_lengths(workload, target))


def space(workload: Spmm, target: Target) -> Space[JoinedConfig]:
    """The spaces of `spmm_wgmma` of all lengths, without clusters and ways back."""
    lengths = _lengths(workload, target)
    of_length = {rows: spmm_wgmma.space(joined(workload, rows), target) for rows in lengths}
    knobs = dict(next(iter(of_length.values())).knobs)
    knobs |= {"cluster": (1,), "turns_back": (False,), "vector": lengths}

    def derived(config: JoinedConfig) -> Mapping[str, float]:
        return features(_tiling(expected(workload, config.vector), config), target)

    rules = zip(*(each.constraints for each in of_length.values()), strict=True)
    return Space(JoinedConfig, knobs, [_by_length(lengths, each) for each in rules], derived)


Rule = Callable[[Any], bool]


def _by_length(lengths: Sequence[int], rules: Sequence[Rule]) -> Rule:
    """A rule of the kernel of long vectors, which is another one for each length."""
    first, *others = rules

    @functools.wraps(first)
    def rule(config: JoinedConfig) -> bool:
        found = first(config)
        for length, other in zip(lengths[1:], others, strict=True):
            found = choose(config.vector == length, other(config), found)
        return found

    return rule


def _long(config: JoinedConfig) -> LongConfig:
    names = (field.name for field in dataclasses.fields(LongConfig))
    return LongConfig(**{name: getattr(config, name) for name in names})


def _tiling(long: Spmm, config: JoinedConfig) -> LongTiling:
    return LongTiling(long, _long(config))


@functools.lru_cache(maxsize=256)
def default(workload: Spmm, target: Target) -> JoinedConfig:
    """The legal configuration of least estimated time.

    Where rows of b are few, a stage's fragments that are turned together were faster than those of
    one instruction at a time, and blocks of the longest vectors the fastest where they are as many
    as multiprocessors. What is chosen so takes 2% longer than the fastest of some twelve.
    """
    legal = space(workload, target)
    some = list(legal.restricted(_UNTUNED).enumerate())
    return min(some or legal.enumerate(), key=lambda config: estimate(workload, config, target))


_SHARE = 0.9
"""Of the estimated time of long vectors: 580 small products took so much in the mean."""


def estimate(workload: Spmm, config: JoinedConfig, target: Target) -> float:
    """Roughly the seconds of a configuration."""
    long = expected(workload, config.vector)
    return _SHARE * spmm_wgmma.estimate(long, _long(config), target)


def build(workload: Spmm, config: JoinedConfig, target: Target) -> PrimFunc:
    """The product of the joined vectors; parameters b, residual?, those of `packed`, y."""
    return spmm_wgmma.build(joined(workload, config.vector), _long(config), target)


def pack(workload: Spmm, config: JoinedConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """What `pack_long` gives of the joined vectors."""
    matrix = regrouped(workload.matrix(constants), config.vector)
    own = {"values": matrix.values, "columns": matrix.indices, "pointers": matrix.pointers}
    return spmm_wgmma.pack(joined(workload, config.vector), _long(config), {**constants, **own})


def packed(workload: Spmm, config: JoinedConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return spmm_wgmma.packed(joined(workload, config.vector), _long(config))


@functools.lru_cache(maxsize=256)
def preference_for(workload: Spmm, target: Target) -> int:
    """In front of the other kernels where these should take longer; of bytes by bytes alone.

    Others are not timed.
    """
    if {element(dtype).bits for dtype in (workload.in_dtype, workload.weight_dtype)} != {8}:
        return _BEHIND
    own = estimate(workload, default(workload, target), target)
    others = (
        module.estimate(workload, module.default(workload, target), target)
        for module in (spmm_panel, spmm_online, spmm_split)
        if module.matches(workload, target)
    )
    return _PREFERRED if own < min(others) else _BEHIND


TEMPLATE = Template(
    "spmm_joined", 1, matches, space, default, build, pack, packed, estimate=estimate,
    preference=_BEHIND, preference_for=preference_for,
)  # fmt: skip
