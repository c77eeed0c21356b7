"""The space of attention on wgmma: knobs and the rules of a legal configuration."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from autoq.search.space import Space
from autoq.templates.arrays.element import element
from autoq.templates.cuda.attention.wgmma.config import WgmmaAttentionConfig
from autoq.templates.cuda.attention.wgmma.cost import estimate, features, registers
from autoq.templates.cuda.attention.wgmma.plan import STEP_BYTES, WgmmaAttentionPlan
from autoq.templates.cuda.device.launch.occupancy import shared_memory_fits, thread_rule
from autoq.templates.cuda.device.planned_space import planned_space
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.operators.attention import Attention
from autoq.templates.target import Target

Rule = Callable[[WgmmaAttentionConfig], bool]
_TILE_KEYS = (48, 64, 80, 96, 112, 128, 144, 160, 176, 192)
_TILES = (1, 2, 3)
"""Counts of tiles that have all keys with little beyond them."""
_PRODUCT_REGISTERS = {True: 26, False: 34}
"""What nvcc 13.0 asks for beside accumulators of a product of scores, of floats and of bytes."""
_UNTUNED: dict[str, Sequence[Any]] = {"stages": (1, 2), "turns": (False,), "cubics": (0,)}
"""Knobs of which the default is always one of these, where it is legal."""
_UNTUNED_FLOATS: dict[str, Sequence[Any]] = {"small": (0,), "persistent": (False,)}
"""The same of floats alone."""
_MOST_KEYS = 256
"""The widest wgmma."""


def space(workload: Attention, target: Target) -> Space[WgmmaAttentionConfig]:
    """Tiles and pipelines that compile for the target without spilling."""
    return planned_space(
        WgmmaAttentionConfig,
        _knobs(workload),
        lambda config: WgmmaAttentionPlan(workload, config, target),
        lambda plan_of: [
            *_block_rules(workload, plan_of),
            *_overlap_rules(workload, plan_of),
            *_resource_rules(workload, target, plan_of),
        ],
        lambda config: features(workload, config, target),
    )


# For so many powers that a thread keeps ptxas needs one register more, or it spills or puts
# products one behind the other; fewer do for heads of up to so many values without a mask, where
# some 80 bytes in local memory cost less than they gain.
_KEPT_FOR_ONE_SPARE, _KEPT_UNMASKED, _SMALL_HEAD = 4, 12, 64


def default(workload: Attention, target: Target) -> WgmmaAttentionConfig:
    """The legal configuration of least estimated time, of the knobs that the estimate knows."""
    legal = space(workload, target)
    knobs = {**_knobs(workload), **_UNTUNED, **(_UNTUNED_FLOATS if workload.floating else {})}
    candidates = (WgmmaAttentionConfig(*values) for values in itertools.product(*knobs.values()))
    masked = bool(workload.mask_axes) or workload.causal
    may_crowd = not (workload.floating or masked or workload.depth > _SMALL_HEAD)

    def compiles_well(config: WgmmaAttentionConfig) -> bool:
        if masked and config.keeps_powers and config.ahead:
            return False
        plan = WgmmaAttentionPlan(workload, config, target)
        kept = plan.tiles * config.tile_keys // 2 if config.keeps_powers else 0
        spare = kept // (_KEPT_UNMASKED if may_crowd else _KEPT_FOR_ONE_SPARE)
        return registers(plan) + spare <= plan.registers.consumer

    return min(
        (c for c in candidates
         if c.persistent >= bool(c.small) and c in legal and compiles_well(c)),
        key=lambda config: estimate(workload, config, target),
    )  # fmt: skip


def key_unit(workload: Attention) -> int:
    """Keys that one wgmma weighs: what `tile_keys` is a multiple of."""
    return STEP_BYTES // element(workload.q_dtype).bytes


def _knobs(workload: Attention) -> dict[str, Sequence[Any]]:
    """Values of the knobs, without those that no configuration of the workload could have."""
    unit = key_unit(workload)
    whole = ceil_div(workload.keys, unit) * unit
    tiles = {keys for keys in _TILE_KEYS if keys < whole and keys % unit == 0}
    for count in _TILES:
        even = ceil_div(ceil_div(workload.keys, count), unit) * unit
        if min(_TILE_KEYS[0], whole) <= even <= _MOST_KEYS:
            tiles.add(even)
    return {
        "consumers": (1, 2, 3, 4),
        "small": (0, 1, 2),
        "tile_keys": tuple(sorted(tiles)),
        "stages": (1, 2, 3, 4),
        "ahead": (False, True),
        "turns": (False, True),
        "keeps_powers": (False,) if workload.floating else (False, True),
        "cubics": (0, 2, 4) if workload.floating else (0,),
        "gives_registers": (False, True),
        "blocks_per_sm": (1, 2, 3, 4, 6, 8),
        "persistent": (False,) if workload.floating else (False, True),
    }


def _block_rules(
    workload: Attention, plan_of: Callable[[WgmmaAttentionConfig], WgmmaAttentionPlan]
) -> list[Rule]:
    def rows_within_queries(config: WgmmaAttentionConfig) -> bool:
        """No consumer of a pair's first block is without queries."""
        return config.rows - 64 < workload.queries

    def stages_are_used(config: WgmmaAttentionConfig) -> bool:
        """One stage for one tile of keys; of several, at least two and not more than tiles."""
        tiles = plan_of(config).tiles
        return config.stages == 1 if tiles == 1 else 2 <= config.stages <= tiles

    def small_blocks_are_some(config: WgmmaAttentionConfig) -> bool:
        """Some blocks are small, and some are not; consumers of neither wait for each other."""
        if not config.small:
            return True
        apart = not (config.turns or workload.causal) and config.small < config.consumers
        return apart and 0 < plan_of(config).full_pairs < workload.pairs

    return [rows_within_queries, stages_are_used, small_blocks_are_some]


def _overlap_rules(
    workload: Attention, plan_of: Callable[[WgmmaAttentionConfig], WgmmaAttentionPlan]
) -> list[Rule]:
    def there_is_a_next_tile(config: WgmmaAttentionConfig) -> bool:
        """What overlaps tiles of keys needs several."""
        return plan_of(config).tiles > 1 or not (config.ahead or config.turns)

    def consumers_take_turns(config: WgmmaAttentionConfig) -> bool:
        """Turns are those of several consumers; of three only where each computes ahead."""
        return not config.turns or config.consumers == 2 or (config.consumers > 2 and config.ahead)

    def only_bytes_are_kept(config: WgmmaAttentionConfig) -> bool:
        """Powers are kept where they wait for a row's sum: those of bytes."""
        return not (config.keeps_powers and workload.floating)

    def bytes_take_no_turns(config: WgmmaAttentionConfig) -> bool:
        """Consumers of bytes compute by themselves."""
        return workload.floating or not config.turns

    def bytes_are_there_ahead(config: WgmmaAttentionConfig) -> bool:
        """Products of bytes are asked for ahead where all keys are there, and powers are kept."""
        if workload.floating or not config.ahead:
            return True
        return config.keeps_powers and config.stages == plan_of(config).tiles

    def rings_go_on(config: WgmmaAttentionConfig) -> bool:
        """Persistent blocks have several to compute, whose tiles go through all stages evenly.

        What is loaded for the next rows must not stand before keys that the last ones need.
        """
        if not config.persistent:
            return True
        plan = plan_of(config)
        once = not plan.twice or config.keeps_powers
        even = not workload.causal and plan.tiles % config.stages == 0
        return once and even and plan.grid < plan.blocks

    return [
        there_is_a_next_tile,
        consumers_take_turns,
        only_bytes_are_kept,
        bytes_take_no_turns,
        bytes_are_there_ahead,
        rings_go_on,
    ]


def _resource_rules(
    workload: Attention, target: Target,
    plan_of: Callable[[WgmmaAttentionConfig], WgmmaAttentionPlan],
) -> list[Rule]:  # fmt: skip
    def registers_suffice(config: WgmmaAttentionConfig) -> bool:
        """Scores, shares and sums fit the registers of a consumer."""
        return registers(plan_of(config)) <= plan_of(config).registers.consumer

    def products_compile(config: WgmmaAttentionConfig) -> bool:
        """ptxas holds a product to the registers at launch, before setmaxnreg gives more."""
        needed = config.tile_keys // 2 + _PRODUCT_REGISTERS[workload.floating]
        return needed <= plan_of(config).registers.launch

    def shared_memory_suffices(config: WgmmaAttentionConfig) -> bool:
        """Stages of all blocks of a multiprocessor fit its shared memory."""
        return shared_memory_fits(plan_of(config).smem_bytes, config.blocks_per_sm, target)

    return [registers_suffice, products_compile, shared_memory_suffices, thread_rule(target)]
