"""Estimated time of a wgmma configuration: the untuned choice, and features of the cost model."""

from __future__ import annotations

from autoq.search.lanes import choose, least, looked_up, most
from autoq.templates.arrays.element import element
from autoq.templates.cuda.device.weights import ceil_div
from autoq.templates.cuda.wgmma.config import PipelineConfig
from autoq.templates.cuda.wgmma.problem import Problem
from autoq.templates.epilogue import Epilogue
from autoq.templates.epilogue.cuda.short_forms.allowed import boundable, convertible
from autoq.templates.operators.conv2d import Conv2d

_LONG_BYTES, _MANY_PRODUCTS = 2048, 1 << 33
"""Bytes of a row of activations, and of all rows, from which on a product is large."""

_WIDE_SECONDS = 27e-9
"""What a team alone waits for each sum of a thread where outputs are wider than a byte.

Scale and bias then come from the L1 instead of shared memory. An H200 took 3.4 to 4 us more for a
tile of 256 x 128 outputs of 16 and 32 bits than for one of bytes.
"""

_EXPANDED_SECONDS = 40e-9
"""What a team alone waits for each sum of a thread where outputs become rows of y by way of shared
memory.

Fitted to 40 configurations of products of 4096 cubed, tile-wise, on an H200: the deviation of the
logarithm is 0.061, and 0.073 without. Small products are estimated without it: in the narrower
tiles that they would have had with it, they took up to half longer than in those that they have.
"""

_WHOLE_BYTES = 8
"""Of neighbouring outputs of a thread, of which four lanes have the 32 bytes of a sector.

Of fewer the L2 takes every sector in two parts. An H200 took 25% longer than without this term for
537 configurations of 1x1 convolutions and products whose threads have four bytes.
"""

_SECTOR_BYTES, _CUT_TIMES = 32, 0.8
"""Of the L2, and how many times as long a sector takes that two tiles of a row share, each of which
writes a part: rows that are no whole sectors have such a one for each tile. 401,408 rows of 240
bytes with residuals took an H200 193, 112, 101 and 74 us in tiles of 48, 64, 96 and 128 columns.
"""

_HIDDEN_SECONDS = 0.5e-6
"""The time of the last epilogue, of which a tail hides all but one block's share.

0.38 us of 13.67 with two consumers together, 0.14 us of 13.26 in turn, two blocks each, for 2048
cubed on an H200.
"""


def features(problem: Problem, config: PipelineConfig) -> dict[str, float]:
    """Model features of a legal configuration."""
    work, load = problem.workload, problem.load_of(config)
    layout = config.layout(work)
    n_tiles = ceil_div(work.k, config.block_n)
    tiles = load.m_tiles * n_tiles
    blocks = tiles * config.split_k
    waves = blocks / problem.resident(config)
    rows = config.block_m + config.block_n
    filled = choose(config.weights_stay, config.block_m, rows)
    return {
        "tiles": tiles,
        "waves": waves,
        "wave_efficiency": choose(
            config.stream_k, 1.0, waves / most(1, ceil_div(blocks, problem.resident(config)))
        ),
        "pixel_waste": load.wasted,
        "channel_waste": n_tiles * config.block_n / work.k,
        "k_waste": layout.total / (layout.taps * work.c),
        "k_stages": layout.stages // config.split_k,
        "split_k": config.split_k,
        "receivers": config.receivers,
        "consumers": config.consumers,
        "smem_bytes": config.smem_bytes(layout),
        "smem_bytes_per_unit": config.smem_bytes(layout) * config.blocks_per_unit,
        "stage_bytes": config.stage_bytes,
        "fill_bytes": tiles * layout.total * filled,
        "intensity": config.block_m * config.block_n / rows,
        "accumulators": config.accumulators,
        "warpgroups_per_unit": config.consumers * config.blocks_per_unit,
        "block_m": config.block_m,
        "seconds_estimate": searched_seconds(problem, config),
    }


def rows_are_cut(work: Conv2d) -> bool:
    """Whether rows of outputs are no whole sectors of the L2."""
    return work.k * element(work.epilogue.out_dtype).bits // 8 % _SECTOR_BYTES != 0


def _instructions(epilogue: Epilogue) -> int:
    """Thread instructions of an output element, in the form that fits most operands."""
    if epilogue.residual_dtype is None:
        return 6
    return 10 if convertible(epilogue) else 15


def estimate_seconds(problem: Problem, config: PipelineConfig) -> float:
    """Time by which untuned configurations are chosen, of the few that are tried for them.

    Fitted to 134 measured configurations of 1x1 convolutions on an H200; the least estimate was
    within 4% of the best of them on average.
    """
    launch, longer, shorter = _parts(problem, config, 50e9)
    return launch + longer + 0.5 * shorter


def untuned_seconds(problem: Problem, config: PipelineConfig) -> float:
    """Whichever of the two was fitted to what is like the workload: large products, or others.

    Chosen by `searched_seconds`, products of 2048 to 8192 cubed took 1 to 9% less time on an H200
    than by `estimate_seconds`, and products over 768 and 1024 values of k up to 31% more.
    """
    work = problem.workload
    products = work.n * work.p * work.q * work.k * problem.taps * work.c
    large = problem.channel_bytes >= _LONG_BYTES and products >= _MANY_PRODUCTS
    return (searched_seconds if large else estimate_seconds)(problem, config)


def searched_seconds(problem: Problem, config: PipelineConfig) -> float:
    """Time by which a search begins, in all of the space.

    Fitted to 111 configurations of products of 1024 to 8192 cubed on an H200, most of them random:
    the deviation of the logarithm is 0.20, where that of `estimate_seconds` is 0.48. Of 90
    configurations of 1x1 convolutions, to which it was not fitted, it is 0.07 instead of 0.09.
    """
    waited = _EXPANDED_SECONDS * config.accumulators if problem.expands else 0.0
    launch, longer, shorter = _parts(problem, config, 100e9, waited)
    share = choose(config.tail_stages > 0, 1 - 1 / config.m_blocks, 0.0)
    return launch + (longer + 0.25 * shorter) * _waits(config) - _HIDDEN_SECONDS * share


def _waits(config: PipelineConfig) -> float:
    """How much longer the tensor cores take where they wait: for narrow rows, and few loads."""
    narrow = looked_up({16: 2.0, 32: 1.5}, config.row_bytes, 1.0)
    narrow = narrow * choose(config.block_n <= 32, 1.3, 1.0)
    shallow = looked_up({2: 1.4, 3: 1.15}, config.stages, 1.0)
    under_way = config.stages * config.stage_bytes * config.blocks_per_unit
    large = choose(config.grid.cluster >= 4, 1.25, 1.0)
    return narrow * shallow * large * most(1.0, 1e5 / under_way) ** 0.27


def _parts(
    problem: Problem, config: PipelineConfig, l2_rate: float, waited: float = 0.0
) -> tuple[float, float, float]:  # fmt: skip
    """Launch, then the longer and the shorter of the busiest resource and the chain of steps.

    Rates of one multiprocessor of an H200: 7.5e12 multiply-adds a second at n >= 64 (66% at n = 32,
    40% at 16), l2_rate bytes a second between L2 and it, 24e9 to memory, 179e9 thread instructions
    a second, of which an output element takes those of `_instructions`. waited: seconds that a team
    waits for a tile besides.
    """
    work = problem.workload
    layout = config.layout(work)
    share = looked_up({16: 0.4, 32: 0.66, 48: 0.85}, config.block_n, 1.0)
    reduction = layout.total / config.split_k
    multiply = config.block_m * config.block_n * reduction / (7.5e12 * share)
    filled = config.block_m + choose(config.weights_stay, 0, config.block_n)
    residual = work.epilogue.residual_dtype
    written = element(work.epilogue.out_dtype).bytes
    moved = written + (element(residual).bytes if residual else 0)
    moved = moved * choose(config.channels * written < _WHOLE_BYTES, 2.0, 1.0)
    if rows_are_cut(work):
        moved = moved * (1 + _CUT_TIMES * _SECTOR_BYTES / (config.block_n * written))
    elements = config.block_m * config.block_n / config.split_k
    instructions = elements * _instructions(work.epilogue)
    busy = most(
        multiply,
        (filled * reduction + elements * moved) / l2_rate,
        elements * moved / 24e9,
        instructions / 179e9,
    )
    # One team alone: 0.7 us of latencies, and an instruction of each warp every 2.2 cycles.
    threads = 128 * config.consumers // config.teams
    alone = 0.7e-6 + multiply + instructions / threads * 2.2 / 1.75e9
    if not boundable(work.epilogue):
        alone += _WIDE_SECONDS * config.accumulators / config.parts
    teams = config.teams * config.blocks_per_unit
    blocks, units = (
        problem.tiles(config) * config.split_k,
        problem.target.units_in_clusters(config.grid.cluster),
    )
    shared = config.stream_k
    each = choose(shared, blocks / units, ceil_div(blocks, units))
    turns = choose(shared, blocks / units / teams, ceil_div(blocks, units * teams))
    chain = most(1, turns) * (alone + waited)
    work_seconds = each * busy
    # Weights that stay arrive before the first product.
    resident = config.resident_bytes(layout) * config.blocks_per_unit / 40e9
    exchange = choose(config.split_k > 1, 0.6e-6, 0) + choose(config.team.k_groups > 1, 0.2e-6, 0)
    exchange += choose(shared, 1.5e-6, 0)
    launch = 2.2e-6 + layout.stages / config.split_k * 0.03e-6 + resident + exchange
    return launch, most(chain, work_seconds), least(chain, work_seconds)
