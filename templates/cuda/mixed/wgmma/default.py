"""The untuned configuration of the mixed-input product."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from autoq.errors import ConfigError
from autoq.search.space import Space
from autoq.templates.cuda.mixed.conversion import GroupScale
from autoq.templates.cuda.mixed.wgmma.config import MixedConfig
from autoq.templates.cuda.mixed.wgmma.cost import estimate
from autoq.templates.cuda.mixed.wgmma.plan import MixedPlan
from autoq.templates.cuda.mixed.wgmma.space import WIDTHS, Rule, space
from autoq.templates.cuda.mixed.widening import Widening
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.target import Target

# m tiles that share their weight rows. Four in turn take 2 to 3% less than eight for 4096 cubed of
# float8_e4m3fn (H100).
_GROUP, _TURNS_GROUP = 8, 4
# Rows of x of a tile up to which sums are scaled, not weights.
_FEW_ROWS = 32
# Parts of a reduction, which are blocks of a cluster: a product of few tiles leaves multiprocessors
# idle without them. 16 x 4096 x 4096 of float16 with 4 bits takes 4.7 us in two parts, 6.1 at best
# without, and 5.7 in parts that add up in memory (H200).
_SPLITS = 2, 4, 8
# So much they have to promise: 60 of 62 products that are divided so are faster (H200).
_LEAST_GAIN = 1.1
_STAGES = 12, 8, 6, 5, 4, 3


def default(
    workload: FloatGemm,
    target: Target,
    moved: int | None = None,
    own: Sequence[Rule] = (),
    turns: bool = True,
) -> MixedConfig:
    """The configuration of least estimated time, of the most stages that fit.

    moved: bytes through memory, the workload's own by default; own: an operator's further rules;
    turns: whether consumers may take turns, of which products of floats have been timed.
    Raises ConfigError where nothing is legal.
    """
    legal = space(workload, target, moved, own)
    best: tuple[tuple[float, int, int], MixedConfig] | None = None
    for whole in _whole(workload, turns):
        for config in _in_parts(workload, whole, legal, target):
            promised = estimate(workload, config, target, moved)
            promised *= _LEAST_GAIN if config.split_k > 1 else 1.0
            # Of equals one that reads weights once, then the smaller tile.
            m_tiles = -(-workload.m // config.block_m)
            key = (promised, m_tiles, config.block_m * config.block_n)
            best = min(best or (key, config), (key, config), key=lambda pair: pair[0])
    if best is not None:
        return best[1]
    found = next(legal.enumerate(), None)
    if found is None:
        raise ConfigError(f"no legal configuration for {workload}")
    return found


def _whole(workload: FloatGemm, turns: bool) -> Iterator[MixedConfig]:
    """Configurations whose tiles have a block each, of whatever number of stages."""
    three = ((3, 1),) if workload.quantised else ()  # of floats no more than three stages fit
    teams = ((2, 1), *three, (1, 1), (2, 2), (4, 4))
    together = itertools.product((False,), WIDTHS, teams, (1, 2), (1, 2), (1, 2))
    # Blocks of a cluster would wait for each other's turns.
    in_turn = itertools.product((True,), WIDTHS, ((2, 1),), (1, 2), (1,), (1,))
    choices = itertools.chain(together, in_turn if turns and not workload.quantised else ())
    for turned, block_m, team, rows, steps, cluster in choices:
        yield MixedConfig(
            block_m, *team, rows, steps, _STAGES[0], cluster, _TURNS_GROUP if turned else _GROUP,
            _group_scale(workload, block_m), widening=_widening(workload, block_m), turns=turned,
        )  # fmt: skip


def _in_parts(
    workload: FloatGemm, whole: MixedConfig, legal: Space[MixedConfig], target: Target
) -> Iterator[MixedConfig]:
    """A configuration of the most stages that fit, and with parts that all run at once."""
    works = MixedPlan(workload, whole).works
    for split in (1, *_SPLITS):
        if split > 1 and works * split > target.units_in_clusters(split):
            return
        parts = replace(whole, split_k=split, split_cluster=split > 1)
        deep = (replace(parts, stages=stages) for stages in _STAGES)
        config = next(filter(legal.legal, deep), None)
        if config is None:
            return
        yield config


def _group_scale(workload: FloatGemm, block_m: int) -> GroupScale:
    """Few sums are scaled in less time than weights: 12.4 us and 13.1 at one row on an H200."""
    few = workload.group > 0 and block_m <= _FEW_ROWS
    return GroupScale.SUM if few else GroupScale.WEIGHT


def _widening(workload: FloatGemm, block_m: int) -> Widening:
    """Masks from bytes to bfloat16, and subnormal nibbles, for their fewer instructions."""
    scaled = workload.group > 0 and _group_scale(workload, block_m) is GroupScale.WEIGHT
    nibbles = workload.weight_dtype in ("int4", "uint4") and not workload.zero_points
    if scaled and nibbles and workload.in_dtype == "float16":
        return Widening.SUBNORMAL
    bytes_to_bfloat = workload.weight_dtype in ("int8", "uint8") and workload.in_dtype == "bfloat16"
    return Widening.MASK if bytes_to_bfloat else Widening.PERMUTE
