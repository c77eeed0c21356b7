"""Knobs of residual products on a CPU, the legal ones and a model of their time."""

from __future__ import annotations

from dataclasses import dataclass

from autoq.search.space import Space
from autoq.templates.cpu.residual.words import LANES, WordDot, word_dot
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.target import Target

_TILE_ROWS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14)
_COLUMNS = (1, 2, 3, 4, 6, 8)
_DOTS_A_CYCLE = 2
_LATENCY = 5
_WORD_CYCLES = 0.3
_VECTOR_CYCLES = 0.4
_TILE_CYCLES = 60
LIST_TILES = (1, 2, 4, 8)
LIST_WORDS = (16, 32, 64, 128, 256, 512)
_LIST_REGISTERS = 0.6
_LIST_BYTES = 32 << 10
_NOMINAL_CLOCK = 2.5e9


@dataclass(frozen=True)
class ResidualCpuConfig:
    """Register tiles of the products, and blocks of the sparse ones.

    tile_rows: rows of a register tile.
    columns: columns of a register tile, and of a tile in which integers lie.
    block_tiles: register tiles, one above the other, that a task computes.
    list_tiles: tiles of columns, and of rows, that a task of a sparse product takes together; 1
        where there is none.
    list_words: words along k of whose columns it adds at a time; 1 where there is none.
    """

    tile_rows: int
    columns: int
    block_tiles: int
    list_tiles: int = 1
    list_words: int = 1


def registers(tile_rows: int, columns: int, dot: WordDot) -> int:
    """Vectors that a register tile takes: sums, a row of columns and a word."""
    vectors = columns // dot.lanes
    return tile_rows * vectors + vectors + 1 + dot.temporaries


def list_registers(tiles: int, columns: int, dot: WordDot) -> int:
    """Vectors that a sparse product takes: sums, a word and what it meets."""
    return tiles * (columns // dot.lanes) + 2 + dot.temporaries


def block_choices(m: int, tile_rows: int) -> tuple[int, ...]:
    """Register tiles of a task: all rows in 1, 2, 4, ... tasks."""
    tiles = -(-m // tile_rows)
    return tuple(sorted({-(-tiles // (1 << i)) for i in range(7)}))


def residual_space(workload: ResidualGemm, target: Target) -> Space[ResidualCpuConfig]:
    """Configurations of a CPU."""
    dot, sparse = word_dot(target), workload.correction == "sparse"

    def fits_registers(config: ResidualCpuConfig) -> bool:
        """sums, a vector of columns each and a word must fit the vector registers"""
        return registers(config.tile_rows, config.columns, dot) <= dot.registers

    def tile_within_rows(config: ResidualCpuConfig) -> bool:
        """a task must not have more rows than there are, but for a part of a tile"""
        return (config.block_tiles - 1) * config.tile_rows < workload.m

    def lists_fit_registers(config: ResidualCpuConfig) -> bool:
        """sums of the tiles that a sparse product takes together must fit the vector registers"""
        return list_registers(config.list_tiles, config.columns, dot) <= dot.registers

    rows = [rows for rows in _TILE_ROWS if rows <= workload.m]
    blocks = {count for tile in rows for count in block_choices(workload.m, tile)}
    widest = -(-workload.n // LANES)
    return Space(
        ResidualCpuConfig,
        {
            "tile_rows": tuple(rows),
            "columns": tuple(LANES * count for count in _COLUMNS if count <= widest),
            "block_tiles": tuple(sorted(blocks)),
            "list_tiles": LIST_TILES if sparse else (1,),
            "list_words": LIST_WORDS if sparse else (1,),
        },
        (fits_registers, tile_within_rows, lists_fit_registers),
        lambda config: {"seconds_estimate": estimate(workload, config, target)},
    )


def default(workload: ResidualGemm, target: Target) -> ResidualCpuConfig:
    """The register tile of the least estimated time, with enough tasks for every core."""
    dot, sparse = word_dot(target), workload.correction == "sparse"

    def lists(columns: int) -> dict[str, int]:
        if not sparse:
            return {}
        room = _LIST_REGISTERS * dot.registers
        legal = [c for c in LIST_TILES if list_registers(c, columns, dot) <= room]
        tiles = max(legal, default=1)
        most = _LIST_BYTES // (4 * tiles * columns)
        return {"list_tiles": tiles, "list_words": max(w for w in LIST_WORDS if w <= most)}

    def blocks(rows: int, columns: int) -> int:
        tasks = max(1, -(-4 * target.units // -(-workload.n // columns)))
        return max(choice for choice in block_choices(workload.m, rows)
                   if choice <= max(1, -(-workload.m // rows) // tasks))  # fmt: skip

    choices = [
        ResidualCpuConfig(rows, LANES * count, blocks(rows, LANES * count), **lists(LANES * count))
        for rows in _TILE_ROWS
        for count in _COLUMNS
        if rows <= workload.m and count <= -(-workload.n // LANES)
        and registers(rows, LANES * count, dot) <= dot.registers
    ]  # fmt: skip
    return min(choices, key=lambda config: estimate(workload, config, target))


def estimate(workload: ResidualGemm, config: ResidualCpuConfig, target: Target) -> float:
    """Seconds of the dense products, of which a correction has up to three."""
    dot = word_dot(target)
    vectors = config.columns // dot.lanes
    products = 3 if workload.correction == "full" else 1

    def tile(rows: int) -> float:
        dots = max(rows * vectors / _DOTS_A_CYCLE * (1 + dot.temporaries), _LATENCY)
        step = dots + _WORD_CYCLES * rows + _VECTOR_CYCLES * vectors
        return -(-workload.k // 4) * step * products + _TILE_CYCLES

    whole, rest = divmod(workload.m, config.tile_rows)
    rows = whole * tile(config.tile_rows) + (tile(rest) if rest else 0.0)
    column_tiles = -(-workload.n // config.columns)
    tasks = column_tiles * -(-workload.m // (config.block_tiles * config.tile_rows))
    busy = (
        min(tasks, target.units) / target.units * tasks / (-(-tasks // target.units) * target.units)
    )
    return column_tiles * rows / target.units / max(busy, 1e-9) / _NOMINAL_CLOCK
