"""The space of the mixed-input product: the values of its knobs and the rules of a legal one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autoq.search.space import Space
from autoq.templates.arrays.element import element
from autoq.templates.cuda.mixed.conversion import GroupScale
from autoq.templates.cuda.mixed.wgmma.config import MixedConfig
from autoq.templates.cuda.mixed.wgmma.cost import features
from autoq.templates.cuda.mixed.wgmma.plan import MixedPlan
from autoq.templates.cuda.mixed.widening import Widening
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.target import Target

# Registers of a consumer beside accumulators and A: addresses, descriptors, barriers, and what the
# functions behind the sums take (ptxas 13.0 spills none of the sampled kernels).
_OTHER_REGISTERS = {"none": 48, "relu": 48, "gelu": 116, "gelu_tanh": 64, "silu": 64}
# Registers that each of three consumers needs less where results are plain, of one block of 64
# weight rows and one step a stage: ptxas spills none of these kernels either.
_LEAN_SPARES = 16
# What ptxas asks for beside the sums of one product, as it says of those that it cannot compile.
# setmaxnreg does not help: a thread has at most what it was launched with for one instruction.
_PRODUCT_REGISTERS = 26
# What the walk of shares takes, the places of a result's further inputs, and turns.
_SHARE_REGISTERS, _INPUT_REGISTERS, _TURN_REGISTERS = 24, 12, 16
WIDTHS = (
    8, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 216, 224, 232, 240, 248, 256,
)  # fmt: skip
"""Rows of x of a tile; 216 and 232 are there because they divide some products evenly."""


Rule = Callable[[MixedConfig], bool]


def space(
    workload: FloatGemm, target: Target, moved: int | None = None, own: Sequence[Rule] = ()
) -> Space[MixedConfig]:
    """Legal tiles and pipelines; moved: bytes through memory, the workload's own by default.

    own: rules that an operator adds, which come first.
    """
    knobs = {
        "block_m": WIDTHS,
        "consumers": (1, 2, 3, 4),
        "k_groups": (1, 2, 4),
        "row_blocks": (1, 2),
        "steps": (1, 2, 4),
        "stages": (3, 4, 5, 6, 8, 10, 12, 16),
        "cluster": (1, 2, 4),
        "group_m": (1, 3, 4, 6, 8, 11, 16),
        "group_scale": tuple(GroupScale),
        "split_k": (1, 2, 3, 4, 6, 8, 16),
        "split_cluster": (False, True),
        "stream_k": (False, True),
        "widening": tuple(Widening),
        "weights_once": (False, True),
        "teams": (1, 2),
        "turns_back": (False, True),
        "turns": (False,) if workload.quantised else (False, True),
    }
    # The other rules rest on the first three.
    rules = [*own, *_team_rules(), *_tile_rules(workload), *_resource_rules(workload, target)]
    return Space(
        MixedConfig, knobs, rules, lambda config: features(workload, config, target, moved)
    )


def _team_rules() -> list[Rule]:
    def teams_divide_consumers(config: MixedConfig) -> bool:
        """teams divide consumers, which then share no reduction"""
        whole = config.consumers % config.teams == 0
        return config.teams == 1 or (whole and config.k_groups == 1)

    def turns_are_of_all(config: MixedConfig) -> bool:
        """two or three consumers that take turns are no teams, and share no reduction"""
        alone = config.teams == config.k_groups == 1 < config.consumers <= 3
        return alone or not config.turns

    def groups_divide_consumers(config: MixedConfig) -> bool:
        """groups along k divide consumers and stages, two for each, and are not for wide tiles"""
        whole = config.consumers % config.k_groups == 0 == config.stages % config.k_groups
        # A consumer leaves a stage when the products of its next one run.
        whole = whole and config.stages >= 2 * config.k_groups
        return whole and (config.k_groups == 1 or config.block_m <= 128)

    return [teams_divide_consumers, turns_are_of_all, groups_divide_consumers]


def _tile_rules(workload: FloatGemm) -> list[Rule]:
    def rows_not_wasted(config: MixedConfig) -> bool:
        """rows of x padded by at most half, or block_m at its least"""
        padded = -(-workload.m // config.block_m) * config.block_m
        return 2 * padded <= 3 * workload.m or config.block_m == WIDTHS[0]

    def weights_not_wasted(config: MixedConfig) -> bool:
        """weight rows padded by at most half, or block_n at its least"""
        least = config.block_n == 64 and config.cluster == 1
        padded = config.columns(workload.n) * config.cluster * config.block_n
        return least or 2 * padded <= 3 * workload.n

    def parts_divide_rows(config: MixedConfig) -> bool:
        """each block of a cluster has rows of x to load"""
        return config.block_m >= 8 * config.cluster

    def scales_are_of_groups(config: MixedConfig) -> bool:
        """sums are scaled only where weights have groups"""
        return config.group_scale is GroupScale.WEIGHT or workload.group > 0

    def widening_suits_weights(config: MixedConfig) -> bool:
        """tables are for 4 bits, folding and masks for bytes to bfloat16, none for floats, and
        subnormal numbers for 4 bits that are scaled to float16 without zero points"""
        nibbles = element(workload.weight_dtype).packed
        if config.widening is Widening.SUBNORMAL:
            scaled = workload.group > 0 and config.group_scale is GroupScale.WEIGHT
            half = workload.in_dtype == "float16"
            return nibbles and half and scaled and not workload.zero_points
        if config.widening is Widening.TABLE:
            return nibbles
        if config.widening in (Widening.FOLD, Widening.MASK):
            return workload.quantised and not nibbles and workload.in_dtype == "bfloat16"
        return config.widening is Widening.PERMUTE or workload.quantised

    def columns_come_again(config: MixedConfig) -> bool:
        """what turns back is the second of several groups of tiles of x, over several columns"""
        m_tiles = -(-workload.m // config.block_m)
        several_n = config.columns(workload.n) > 1
        return not config.turns_back or (several_n and m_tiles > config.group_m)

    return [
        rows_not_wasted,
        weights_not_wasted,
        parts_divide_rows,
        scales_are_of_groups,
        widening_suits_weights,
        columns_come_again,
    ]


def _resource_rules(workload: FloatGemm, target: Target) -> list[Rule]:
    plain = not workload.group and not workload.zero_points and not workload.bias
    plain = plain and workload.activation == "none" and not workload.residual

    def lean(config: MixedConfig) -> bool:
        alone = config.consumers == config.row_team == 3 and config.row_blocks == config.steps == 1
        return plain and alone and not workload.x_scale and not config.splits

    def registers_fit(config: MixedConfig) -> bool:
        """accumulators, those of a group's sum and two stages of A fit a consumer's registers"""
        sums = config.accumulators if config.group_scale is GroupScale.SUM else 0
        a = 32 * config.row_blocks * config.steps if workload.quantised else 0
        other = _OTHER_REGISTERS[workload.activation] + _SHARE_REGISTERS * config.stream_k
        other += _INPUT_REGISTERS * (workload.residual + workload.x_scale)
        other += _TURN_REGISTERS * config.turns * (1 + 2 * workload.residual)
        other -= _LEAN_SPARES * lean(config)
        return config.accumulators + sums + a + other <= config.registers.consumer

    def product_fits_at_launch(config: MixedConfig) -> bool:
        """the sums of one product fit the registers that a thread is launched with"""
        return config.block_m // 2 + _PRODUCT_REGISTERS <= config.registers.launch

    def shared_memory_fits(config: MixedConfig) -> bool:
        """stages and staging buffers fit the shared memory of a block"""
        return MixedPlan(workload, config).smem_bytes <= target.smem_bytes

    def reductions_are_split_once(config: MixedConfig) -> bool:
        """reductions are divided equally or shared out by stream-K, if at all"""
        return not (config.stream_k and config.split_k > 1)

    def parts_fit_a_cluster(config: MixedConfig) -> bool:
        """2, 4 or 8 parts of a reduction are a cluster, whose blocks share nothing else"""
        alone = config.cluster == 1 and not config.stream_k
        return not config.split_cluster or (alone and config.split_k in (2, 4, 8))

    def parts_fill_few_waves(config: MixedConfig) -> bool:
        """each part of a split reduction has stages, and all parts are at most two waves"""
        plan = MixedPlan(workload, config)
        few = plan.works * config.split_k <= 2 * plan.clusters(target)
        return config.split_k == 1 or (plan.portions >= config.split_k and few)

    def teams_have_tiles(config: MixedConfig) -> bool:
        """teams have a tile each, whose reduction nobody shares"""
        plan = MixedPlan(workload, config)
        return config.teams == 1 or (not config.splits and plan.works > plan.clusters(target))

    def turns_have_tiles(config: MixedConfig) -> bool:
        """consumers that take turns have a tile each, whose reduction nobody shares"""
        plan = MixedPlan(workload, config)
        whole = not config.splits and plan.works > plan.clusters(target)
        return whole or not config.turns

    def waves_are_broken(config: MixedConfig) -> bool:
        """stream-K is for tiles that fill no whole waves"""
        plan = MixedPlan(workload, config)
        return not config.stream_k or plan.works % plan.clusters(target) != 0

    return [
        registers_fit,
        product_fits_at_launch,
        shared_memory_fits,
        reductions_are_split_once,
        parts_fit_a_cluster,
        parts_fill_few_waves,
        waves_are_broken,
        teams_have_tiles,
        turns_have_tiles,
    ]
