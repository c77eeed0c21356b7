"""Products of 16-bit floats with weights of floats or narrow integers, on Hopper's wgmma."""

from __future__ import annotations

import itertools
import math

import numpy as np
from tvm.tirx import PrimFunc

from autoq.errors import ConfigError
from autoq.search.space import Space
from autoq.templates.base import Template
from autoq.templates.cuda.mixed.config import MixedConfig
from autoq.templates.cuda.mixed.kernel import build_kernel
from autoq.templates.cuda.mixed.pack import pack as pack_plan
from autoq.templates.cuda.mixed.pack import packed as packed_plan
from autoq.templates.cuda.mixed.plan import MixedPlan
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.target import Target, parse_target
from autoq.templates.tensor_spec import TensorSpec
from autoq.templates.workload import Constants, Workload

# Registers of a consumer beside accumulators and A: addresses, descriptors, barriers, and what the
# functions behind the sums take (ptxas 13.0 spills none of the sampled kernels).
_OTHER_REGISTERS = {"none": 48, "relu": 48, "gelu": 100, "gelu_tanh": 64, "silu": 64}
_WIDTHS = (
    8, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 216, 224, 232, 240, 248, 256,
)  # fmt: skip
_BYTES_A_CYCLE = 40.0
"""What a multiprocessor takes of the L2 while its tensor cores work, roughly."""


def matches(workload: Workload, target: Target) -> bool:
    """16-bit outputs, rows of x and y of whole 16 bytes, groups of 32, 64 or more."""
    if not (isinstance(workload, FloatGemm) and target.has_wgmma):
        return False
    row = workload.y_shape[1]
    group = workload.group
    whole = group == 0 or group == 32 or group % 64 == 0
    return workload.out_dtype != "float32" and workload.k % 8 == row % 8 == 0 and whole


def space(workload: FloatGemm, target: Target) -> Space[MixedConfig]:
    """Legal tiles and pipelines."""

    def plan(config: MixedConfig) -> MixedPlan:
        return MixedPlan(workload, config, target)

    def shared_memory_fits(config: MixedConfig) -> bool:
        """stages and staging buffers fit the shared memory of a block"""
        return plan(config).smem_bytes <= target.smem_bytes

    def registers_fit(config: MixedConfig) -> bool:
        """accumulators and two stages of A fit the registers of a consumer"""
        a = 32 * config.row_blocks * config.steps if workload.quantised else 0
        return (
            config.accumulators + a + _OTHER_REGISTERS[workload.activation]
            <= config.registers.consumer
        )

    def rows_not_wasted(config: MixedConfig) -> bool:
        """rows of x padded by at most half, or block_m at its least"""
        padded = -(-workload.m // config.block_m) * config.block_m
        return 2 * padded <= 3 * workload.m or config.block_m == _WIDTHS[0]

    def weights_not_wasted(config: MixedConfig) -> bool:
        """weight rows padded by at most half, or block_n at its least"""
        padded = MixedPlan(workload, config, target).padded_n
        least = config.block_n == 64 and config.cluster == 1
        return 2 * padded <= 3 * workload.n or least

    def parts_divide_rows(config: MixedConfig) -> bool:
        """each block of a cluster has rows of x to load"""
        return config.block_m >= 8 * config.cluster

    def groups_divide_consumers(config: MixedConfig) -> bool:
        """groups along k divide the consumers and the stages, and are not for wide tiles"""
        whole = config.consumers % config.k_groups == 0 == config.stages % config.k_groups
        return whole and (config.k_groups == 1 or config.block_m <= 128)

    def columns_are_whole(config: MixedConfig) -> bool:
        """with the weight on the left tiles are stored 64 columns at a time"""
        return not workload.weight_left or config.block_m % 64 == 0

    def features(config: MixedConfig) -> dict[str, float]:
        made = plan(config)
        return {
            "works": float(made.works),
            "waves": made.works / made.grid,
            "tail": made.works / (math.ceil(made.works / made.grid) * made.grid),
            "tile": float(config.block_m * config.block_n),
            "smem_bytes": float(made.smem_bytes),
            "bytes_in_flight": float(config.stages * made.stage_bytes),
            "bytes_a_product": made.stage_bytes / (config.block_m * config.block_n * config.steps),
            "log_seconds": math.log(estimate(workload, config, target)),
        }

    return Space(
        MixedConfig,
        {
            "block_m": _WIDTHS,
            "consumers": (1, 2, 3, 4),
            "k_groups": (1, 2, 4),
            "row_blocks": (1, 2),
            "steps": (1, 2, 4),
            "stages": (3, 4, 5, 6, 8, 10, 12, 16),
            "cluster": (1, 2, 4),
            "group_m": (1, 4, 8, 16),
        },
        [
            groups_divide_consumers, rows_not_wasted, weights_not_wasted, parts_divide_rows,
            columns_are_whole, registers_fit, shared_memory_fits,
        ],
        features,
    )  # fmt: skip


def estimate(workload: FloatGemm, config: MixedConfig, target: Target) -> float:
    """Roughly the seconds: waves of tiles, each as long as its products, loads or conversions."""
    plan = MixedPlan(workload, config, target)
    products = config.block_m * config.block_n * 64
    rate = target.rate(workload.in_dtype) / 2 / target.clock_hz / target.units
    loaded = config.x_bytes / config.cluster + config.blocks * plan.tile_bytes
    memory = workload.bytes / target.memory_rate * target.clock_hz
    busy = min(1.0, 0.5 + 0.25 * config.consumers)
    # A consumer waits, reads, widens and multiplies for so long, whatever the tile's width.
    latency = (90.0 + 220.0 / config.steps) * config.row_blocks / config.k_groups
    step = max(products / rate / busy, loaded / _BYTES_A_CYCLE, latency)
    cycles = math.ceil(plan.works / plan.grid) * (plan.k_steps * step + 10 * config.block_m + 1500)
    return max(cycles, memory) / target.clock_hz


def default(workload: FloatGemm, target: Target) -> MixedConfig:
    """The configuration of least estimated time, of the most stages that fit."""
    legal = space(workload, target)
    best: tuple[tuple[float, int], MixedConfig] | None = None
    teams = ((2, 1), (1, 1), (2, 2), (4, 4))
    choices = itertools.product(_WIDTHS, teams, (1, 2), (1, 2), (1, 2))
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


def build(workload: FloatGemm, config: MixedConfig, target: Target) -> PrimFunc:
    """The kernel of a configuration."""
    return build_kernel(MixedPlan(workload, config, target))


def _plan(workload: FloatGemm, config: MixedConfig) -> MixedPlan:
    return MixedPlan(workload, config, parse_target("cuda:sm_90a"))


def pack(workload: FloatGemm, config: MixedConfig, constants: Constants) -> tuple[np.ndarray, ...]:
    """Tiles of weights, then what is taken from each row, scales and bias, as far as there are."""
    return pack_plan(_plan(workload, config), constants)


def packed(workload: FloatGemm, config: MixedConfig) -> tuple[TensorSpec, ...]:
    """What `pack` gives."""
    return packed_plan(_plan(workload, config))


TEMPLATE = Template(
    "float_gemm_wgmma", 1, matches, space, default, build, pack, packed, preference=90,
    estimate=estimate,
)  # fmt: skip
