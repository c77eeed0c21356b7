"""The untuned configuration of the mixed-input product."""

from __future__ import annotations

import itertools

from autoq.errors import ConfigError
from autoq.templates.cuda.mixed.wgmma.config import MixedConfig
from autoq.templates.cuda.mixed.wgmma.cost import estimate
from autoq.templates.cuda.mixed.wgmma.space import WIDTHS, space
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.target import Target


def default(workload: FloatGemm, target: Target) -> MixedConfig:
    """The configuration of least estimated time, of the most stages that fit.

    Raises ConfigError where nothing is legal.
    """
    legal = space(workload, target)
    best: tuple[tuple[float, int], MixedConfig] | None = None
    teams = ((2, 1), (3, 1), (1, 1), (2, 2), (4, 4))
    choices = itertools.product(WIDTHS, teams, (1, 2), (1, 2), (1, 2))
    for block_m, team, rows, steps, cluster in choices:
        for stages in (12, 8, 6, 5, 4, 3):
            config = MixedConfig(block_m, *team, rows, steps, stages, cluster, 8)
            if legal.legal(config):
                key = (estimate(workload, config, target), block_m * config.block_n)
                best = min(best or (key, config), (key, config), key=lambda pair: pair[0])
                break
    if best is not None:
        return best[1]
    found = next(legal.enumerate(), None)
    if found is None:
        raise ConfigError(f"no legal configuration for {workload}")
    return found
