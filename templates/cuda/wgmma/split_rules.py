"""Rules of reductions that are divided and of tiles that are shared, in the wgmma pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.cuda.wgmma.config import PipelineConfig, Shared
from autoq.templates.cuda.wgmma.problem import Problem


def split_rules(problem: Problem) -> list[Callable[[Any], bool]]:
    """Rules of a legal configuration, of tails and shares, parts, and clusters."""
    return [*_share_rules(problem), *_part_rules(problem), *_cluster_rules(problem)]


def _share_rules(problem: Problem) -> list[Callable[[Any], bool]]:
    def tail_is_of_blocks(config: PipelineConfig) -> bool:
        """a tail is of consumers with two or three blocks, which finish whole tiles alone"""
        if not config.tail_stages:
            return True
        whole = config.parts == 1 and not config.stream_k
        return whole and config.m_blocks in (2, 3) and not problem.workload.epilogue.scale_group

    def tail_lies_in_the_ring(config: PipelineConfig) -> bool:
        """the stages of a tail lie in the ring together, and others come before them"""
        layout = config.layout(problem.workload)
        return config.tail_stages <= config.stages and (
            config.tail_stages == 0 or config.tail_stages < layout.stages
        )

    def shares_fill_waves(config: PipelineConfig) -> bool:
        """stream-K is for whole reductions of lasting blocks, and tiles that fill no whole waves"""
        if not config.stream_k:
            return True
        if not config.grid.persistent or config.parts > 1 or config.weights_stay:
            return False
        units = problem.target.units_in_clusters(config.grid.cluster)
        return problem.tiles(config) % (units * config.blocks_per_unit) != 0

    return [tail_is_of_blocks, tail_lies_in_the_ring, shares_fill_waves]


def _part_rules(problem: Problem) -> list[Callable[[Any], bool]]:
    def parts_have_stages(config: PipelineConfig) -> bool:
        """every part of a split reduction has pipeline stages, two or more"""
        layout = config.layout(problem.workload)
        return config.parts == 1 or layout.stages >= 2 * config.parts

    def parts_finish_slices(config: PipelineConfig) -> bool:
        """every part of a split reduction finishes as many whole channel groups"""
        return config.m_blocks * config.groups % config.parts == 0

    def parts_cooperate(config: PipelineConfig) -> bool:
        """parts of a reduction share one tile at a time, whose operands come as they are needed"""
        if config.parts == 1:
            return True
        once = config.cooperative and not config.weights_stay and not config.residual_ahead
        return once and config.channels_outer

    def k_groups_own_stages(config: PipelineConfig) -> bool:
        """groups of consumers that take stages in turn have two or more each, all as many"""
        # A consumer leaves a stage when the products of its next one have been issued.
        return (
            config.stages % config.team.k_groups == 0 and config.stages >= 2 * config.team.k_groups
        )

    def exchange_happens_once(config: PipelineConfig) -> bool:
        """blocks whose consumers split the reduction compute one tile each"""
        if config.team.k_groups == 1 or config.split_k > 1:
            return True
        return not config.grid.persistent or problem.tiles(config) <= problem.resident(config)

    return [
        parts_have_stages,
        parts_finish_slices,
        parts_cooperate,
        k_groups_own_stages,
        exchange_happens_once,
    ]


def _cluster_rules(problem: Problem) -> list[Callable[[Any], bool]]:
    def clusters_have_tiles(config: PipelineConfig) -> bool:
        """tiles of a column, or of a row, divide among a cluster's blocks, which run at once"""
        m_tiles = problem.load_of(config).m_tiles
        n_tiles = ceil_div(problem.workload.k, config.block_n)
        tiles = {Shared.WEIGHTS: m_tiles, Shared.ACTIVATIONS: n_tiles}
        cluster = config.grid.cluster
        fits = cluster <= problem.target.units_in_clusters(cluster)
        return fits and tiles.get(config.grid.shared, cluster) % cluster == 0

    def receivers_take_turns_to_load(config: PipelineConfig) -> bool:
        """every block loads as many of the ring's stages for its cluster"""
        return config.receivers == 1 or config.stages % config.receivers == 0

    def clusters_replace_tiles(config: PipelineConfig) -> bool:
        """a reduction is split among at most two blocks for each multiprocessor"""
        blocks = problem.tiles(config) * config.split_k
        return config.split_k == 1 or blocks <= 2 * problem.target.units

    return [clusters_have_tiles, receivers_take_turns_to_load, clusters_replace_tiles]
