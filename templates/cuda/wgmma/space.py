"""The space of the wgmma pipeline: the values of its knobs and the rules of a legal one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from autoq.search.lanes import choose
from autoq.search.space import Space
from autoq.templates.arrays.element import element
from autoq.templates.cuda.device.launch.input_once import input_once_values
from autoq.templates.cuda.device.memory.tma import MAX_BOX
from autoq.templates.cuda.device.weights import MOST_CHANNELS, ceil_div
from autoq.templates.cuda.wgmma.config import (
    PERSISTENT,
    Grid,
    PipelineConfig,
    Shared,
    SplitTeam,
)
from autoq.templates.cuda.wgmma.cost import features
from autoq.templates.cuda.wgmma.problem import Problem
from autoq.templates.cuda.wgmma.range_rules import range_bytes, range_rules
from autoq.templates.cuda.wgmma.register_need import consumer_registers
from autoq.templates.cuda.wgmma.split_rules import split_rules
from autoq.templates.epilogue.cuda.short_forms.allowed import boundable
from autoq.templates.epilogue.cuda.short_forms.long_table import lookup_bytes

# Registers that a consumer needs less where short forms finish whole tiles of one product of two
# consumers in turn, in rows of 128 bytes and without residuals: ptxas spills none of the sampled
# kernels of 192 accumulators. It spills some of convolutions, of several products, with a tail,
# narrower rows, a tile that consumers share, or rows of a channel group apart.
_LEAN_SPARES = 16

# ptxas allocates a wgmma within the launch's registers, whatever setmaxnreg grants (error C7602).
_INSTRUCTION_REGISTERS = 26

_WIDTHS = (16, 32, 48, 64, 80, 96, 128, 144, 160, 192, 256)
_STAGES = (2, 3, 4, 5, 6, 8, 10)
# 11 and 12 of 132 multiprocessors make a wave a rectangle of nearly square tiles.
_GROUPS = (2, 3, 4, 6, 8, 11, 12, 16)

_TEAMS = (
    *(SplitTeam(n, True) for n in (1, 2, 3)),
    SplitTeam(2, True, k_groups=2),
    *(SplitTeam(n, False) for n in (2, 3)),
)
_GRIDS = (
    PERSISTENT,
    Grid(False),
    *(Grid(False, n, Shared.REDUCTION) for n in (2, 4, 8)),
    *(Grid(True, n, Shared.WEIGHTS) for n in (2, 4)),
    Grid(True, 2, Shared.ACTIVATIONS),
)


def constraints(problem: Problem) -> list[Callable[[Any], bool]]:
    """The rules of a legal configuration."""
    return [
        *_tile_rules(problem),
        *_reduction_rules(problem),
        *_resource_rules(problem),
        *_operand_rules(problem),
        *_schedule_rules(problem),
        *split_rules(problem),
        *range_rules(problem),
    ]


def _tile_rules(problem: Problem) -> list[Callable[[Any], bool]]:
    work = problem.workload

    def rows_fit_one_box(config: PipelineConfig) -> bool:
        """the rows of a tile come in one TMA box"""
        return config.block_m <= problem.max_rows

    def channels_not_wasted(config: PipelineConfig) -> bool:
        """output channels padded by at most half, or block_n at its least"""
        padded = ceil_div(work.k, config.block_n) * config.block_n
        return config.block_n == 16 or 2 * padded <= 3 * work.k

    def pixels_not_wasted(config: PipelineConfig) -> bool:
        """rows padded by at most half, or block_m at its least"""
        return config.block_m == 64 or problem.load_of(config).wasted <= 1.5

    return [rows_fit_one_box, channels_not_wasted, pixels_not_wasted]


def _reduction_rules(problem: Problem) -> list[Callable[[Any], bool]]:
    def rows_hold_channels(config: PipelineConfig) -> bool:
        """input channels padded by at most half"""
        layout = config.layout(problem.workload)
        return 2 * layout.chunks * config.row_bytes <= 3 * problem.channel_bytes

    def pairs_of_narrow_rows(config: PipelineConfig) -> bool:
        """rows of 16 bytes are multiplied two at a time"""
        return config.row_bytes > 16 or config.per_stage % 2 == 0

    def stages_not_padded(config: PipelineConfig) -> bool:
        """sub-tiles padded by at most half, or a stage of the whole reduction at its least"""
        layout = config.layout(problem.workload)
        least = 2 if config.row_bytes == 16 else 1
        padded = layout.stages * layout.per_stage
        whole = config.parts == 1 and config.per_stage == least
        return whole or 2 * padded <= 3 * layout.used

    def groups_are_whole_stages(config: PipelineConfig) -> bool:
        """scales of groups along k change between stages, whose sums nobody else completes"""
        group = problem.workload.epilogue.scale_group
        whole = group % (config.row_bytes * config.per_stage) == 0
        return not group or (whole and config.parts == 1)

    return [rows_hold_channels, pairs_of_narrow_rows, stages_not_padded, groups_are_whole_stages]


def _resource_rules(problem: Problem) -> list[Callable[[Any], bool]]:
    def shared_memory_fits(config: PipelineConfig) -> bool:
        """all stages of all resident blocks fit the shared memory"""
        target = problem.target
        each = target.unit_smem_bytes // config.blocks_per_unit - target.reserved_smem_bytes
        layout = config.layout(problem.workload)
        needed = config.smem_bytes(layout) + lookup_bytes(problem.workload.epilogue)
        needed += range_bytes(problem, config)
        return needed <= min(each, target.smem_bytes)

    def lean(config: PipelineConfig) -> bool:
        short = problem.workload.epilogue.residual_dtype is None and boundable(
            problem.workload.epilogue
        )
        whole = config.parts == 1 and not config.tail_stages and config.channels_outer
        turns = config.teams == config.consumers == 2 and config.row_bytes == 128
        return short and whole and turns and problem.alone

    def accumulators_fit(config: PipelineConfig) -> bool:
        """accumulators, waiting residuals and the epilogue fit a consumer's registers"""
        used = consumer_registers(problem.workload.epilogue, config)
        used -= _LEAN_SPARES if lean(config) else 0
        return used <= config.registers.consumer

    def instruction_fits(config: PipelineConfig) -> bool:
        """accumulators of one instruction fit the registers that a block is launched with"""
        least = config.block_n // 2 + _INSTRUCTION_REGISTERS
        return least <= config.registers.launch

    return [shared_memory_fits, accumulators_fit, instruction_fits]


def _schedule_rules(problem: Problem) -> list[Callable[[Any], bool]]:
    def turns_have_tiles(config: PipelineConfig) -> bool:
        """consumers that take turns need a persistent block with a tile for each"""
        if config.cooperative:
            return True
        tiles = problem.tiles(config)
        return config.grid.persistent and tiles > problem.resident(config)

    def blocks_have_tiles(config: PipelineConfig) -> bool:
        """several blocks a multiprocessor need more tiles than multiprocessors"""
        blocks = problem.tiles(config) * config.split_k
        return config.blocks_per_unit == 1 or blocks > problem.target.units

    def persistence_matters(config: PipelineConfig) -> bool:
        """blocks of one tile are told apart only where tiles outnumber resident blocks"""
        several = problem.tiles(config) > problem.resident(config)
        return config.grid.persistent or config.split_k > 1 or several

    def stages_are_filled(config: PipelineConfig) -> bool:
        """a block of one tile fills no more stages than the tile has, but at least two"""
        layout = config.layout(problem.workload)
        single = not config.grid.persistent or problem.tiles(config) <= problem.resident(config)
        each = ceil_div(layout.stages, config.split_k)
        return config.stages <= max(2, each) or not single

    return [turns_have_tiles, blocks_have_tiles, persistence_matters, stages_are_filled]


def _operand_rules(problem: Problem) -> list[Callable[[Any], bool]]:
    epilogue = problem.workload.epilogue

    def residual_comes_one_way(config: PipelineConfig) -> bool:
        """residuals wait in registers or in shared memory, there in boxes of 64 channels"""
        boxes = config.block_n % 64 == 0 and config.block_m <= MAX_BOX
        return not config.residual_ahead or (boxes and not config.residual_early)

    def weights_stay_for_many_tiles(config: PipelineConfig) -> bool:
        """weights stay in persistent blocks with several tiles, one or more for each n tile"""
        if not config.weights_stay:
            return True
        n_tiles = ceil_div(problem.workload.k, config.block_n)
        resident = problem.resident(config)
        once = config.grid.persistent and config.grid.cluster == 1
        return once and n_tiles <= resident < problem.tiles(config)

    def early_stages_are_empty(config: PipelineConfig) -> bool:
        """what is loaded before a block meets is whole stages of its own, of a whole tile"""
        alone = config.receivers == 1 and not config.weights_stay and not config.stream_k
        return alone or not config.early_loads

    def staying_weights_are_read_once(config: PipelineConfig) -> bool:
        """weights that stay are read once by each block, whatever the L2 cache does"""
        return not (config.weights_stay and config.weights_once)

    def columns_come_again(config: PipelineConfig) -> bool:
        """what turns back is the second of several groups of m tiles, over several n tiles"""
        several_n = ceil_div(problem.workload.k, config.block_n) > 1
        groups = config.grid.persistent and not config.weights_stay and several_n
        each = config.group * choose(config.grid.shared is Shared.WEIGHTS, config.receivers, 1)
        return not config.turns_back or (groups and problem.load_of(config).m_tiles > each)

    def last_columns_are_plain(config: PipelineConfig) -> bool:
        """tiles with a few columns at their end are whole products, in values as they are stored"""
        whole = config.parts == 1 and not config.stream_k and not config.residual_early
        plain = not epilogue.scale_group and not epilogue.by_range
        return (whole and plain) or config.last_columns == 0

    def bound_lowers_channels(config: PipelineConfig) -> bool:
        """channels of a thread are bounded only where it would have more"""
        return config.most_channels == MOST_CHANNELS or config.bounds_channels

    return [
        early_stages_are_empty,
        staying_weights_are_read_once,
        columns_come_again,
        bound_lowers_channels,
        last_columns_are_plain,
        weights_stay_for_many_tiles,
        residual_comes_one_way,
    ]


def knobs(problem: Problem) -> dict[str, Sequence[Any]]:
    """Values of every knob of the pipeline that some legal configuration of the problem has."""
    work = problem.workload
    widths = tuple(n for n in _WIDTHS if 2 * n <= 3 * work.k or n == 16)
    row_bytes = tuple(b for b in (16, 32, 64, 128) if 2 * b <= 3 * problem.channel_bytes)
    several_n = work.k > widths[0]
    pixels = work.n * work.p * work.q
    # Boxes of pixels may be half empty, hence 32 rows.
    several_tiles = ceil_div(pixels, 32) * ceil_div(work.k, 16) > problem.target.units
    # Residuals by TMA: byte rows that it can address, for tiles of consecutive pixels.
    residual = work.epilogue.residual_dtype
    ahead = residual in ("int8", "uint8") and boundable(work.epilogue) and work.k % 16 == 0
    ahead = ahead and problem.consecutive
    # A split reduction is worth an exchange where it is long, and tiles of 128 x 128 are few.
    long = problem.taps * work.c >= 1024
    few_tiles = ceil_div(pixels, 128) * ceil_div(work.k, 128) <= problem.target.units
    longest = problem.taps * ceil_div(problem.channel_bytes, row_bytes[0])
    return {
        "m_blocks": tuple(b for b in (1, 2, 3) if b == 1 or 2 * 64 * b <= 3 * pixels),
        "block_n": widths,
        "row_bytes": row_bytes,
        "per_stage": tuple(n for n in (1, 2, 4) if n <= 2 or 2 * n <= 3 * longest),
        "stages": tuple(n for n in _STAGES if several_tiles or n <= max(2, longest)),
        "team": tuple(
            team
            for team in _TEAMS
            if (team.consumers == 1 or team.k_groups > 1 or 64 * team.consumers <= 2 * pixels)
            and (team.cooperative or several_tiles)
            and (team.k_groups == 1 or long)
        ),
        "blocks_per_unit": (1, 2, 3) if several_tiles else (1,),
        "grid": tuple(
            grid
            for grid in _GRIDS
            if grid == PERSISTENT
            or (grid.shared is Shared.REDUCTION and long and few_tiles)
            or (grid.shared is not Shared.REDUCTION and several_tiles)
        ),
        "group": _GROUPS if several_n and several_tiles else (8,),
        "channels_outer": (True, False),
        "residual_early": (True, False) if work.epilogue.residual_dtype else (False,),
        "residual_ahead": (True, False) if ahead else (False,),
        "weights_stay": (False, True) if several_tiles else (False,),
        "input_once": input_once_values(work),
        "stream_k": (False, True) if several_tiles and problem.streams else (False,),
        "most_channels": _most_channels(work.epilogue.out_dtype),
        "tail_stages": (0, 2, 4),
        "weights_once": (False, True) if several_tiles else (False,),
        "early_loads": (0, 1, 2),
        "turns_back": (False, True) if several_n and several_tiles else (False,),
    }


def _most_channels(out_dtype: str) -> tuple[int, ...]:
    """As many channels as one store of 16 bytes holds, and as many as a thread can have."""
    return tuple(sorted({max(4, 16 // element(out_dtype).bytes), MOST_CHANNELS}))


def make_space(
    problem: Problem, config_type: type[Any], extra: Mapping[str, Sequence[Any]] | None = None,
    rules: Sequence[Callable[[Any], bool]] = (),
) -> Space[Any]:  # fmt: skip
    """The space of a template: the common knobs, then its own ones and their rules."""
    values = {**knobs(problem), **(extra or {})}
    ordered = {field.name: values[field.name] for field in fields(config_type)}
    return Space(
        config_type, ordered, [*rules, *constraints(problem)], lambda c: features(problem, c)
    )
