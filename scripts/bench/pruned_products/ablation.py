"""Figure 4 of arXiv:2402.10876: what tile-wise products take in torch before they are one kernel.

Each function gives what to launch, what it computes and what is expected, of random tiles of 128
columns. The weight's columns and each tile's rows keep as many places as the sparsity leaves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_TILE = 128
_STREAMS = 4


@dataclass(frozen=True)
class Tiles:
    """A weight [n, k] pruned in tiles, and x [m, k].

    rows: the k that each tile keeps. columns: those of y that it computes. values: [columns, rows].
    """

    x: Any
    weight: Any
    rows: list[Any]
    columns: list[Any]
    values: list[Any]


def _tiles(m: int, n: int, k: int, dtype: str, sparsity: float) -> Tiles:
    import torch

    kind, share = getattr(torch, dtype), math.sqrt(1 - sparsity)
    x, dense = (torch.randint(-4, 4, (size, k), device="cuda").to(kind) for size in (m, n))
    kept = torch.randperm(n, device="cuda")[: round(share * n)].sort().values
    columns = list(kept.split(_TILE))
    rows = [torch.randperm(k, device="cuda")[: round(share * k)].sort().values for _ in columns]
    values = [dense[own][:, used].contiguous() for own, used in zip(columns, rows, strict=True)]
    weight = torch.zeros_like(dense)
    for own, used, value in zip(columns, rows, values, strict=True):
        weight[own[:, None], used] = value
    return Tiles(x, weight, rows, columns, values)


def masked(*given: Any) -> tuple[Callable, Any, Any]:
    """The dense product of the weight with its zeros."""
    tiles = _tiles(*given)
    return lambda: tiles.x @ tiles.weight.t(), tiles.x @ tiles.weight.t(), _expected(tiles)


def gathered(*given: Any) -> tuple[Callable, Any, Any]:
    """A gather of columns of x, a product and a scatter for each tile."""
    tiles = _tiles(*given)
    y = tiles.x.new_zeros(len(tiles.x), len(tiles.weight))

    def launch() -> None:
        for rows, columns, values in zip(tiles.rows, tiles.columns, tiles.values, strict=True):
            y.index_copy_(1, columns, tiles.x.index_select(1, rows) @ values.t())

    launch()
    return launch, y, _expected(tiles)


def _turned(tiles: Tiles, streams: int) -> tuple[Callable, Any, Any]:
    """The same over x turned, whose rows are gathered, and y turned, in so many streams."""
    import torch

    y = tiles.x.new_zeros(len(tiles.weight), len(tiles.x))
    others = [torch.cuda.Stream() for _ in range(streams - 1)]

    def launch() -> None:
        main = torch.cuda.current_stream()
        x = tiles.x.t().contiguous()
        for other in others:
            other.wait_stream(main)
        parts = zip(tiles.rows, tiles.columns, tiles.values, strict=True)
        for number, (rows, columns, values) in enumerate(parts):
            with torch.cuda.stream([main, *others][number % streams]):
                y.index_copy_(0, columns, values @ x.index_select(0, rows))
        for other in others:
            main.wait_stream(other)

    launch()
    torch.cuda.synchronize()
    return launch, y, _expected(tiles).t()


def transposed(*given: Any) -> tuple[Callable, Any, Any]:
    """x is turned first, so that what is gathered are whole rows."""
    return _turned(_tiles(*given), 1)


def streams(*given: Any) -> tuple[Callable, Any, Any]:
    """Tiles in several streams, over x turned."""
    return _turned(_tiles(*given), _STREAMS)


def batched(*given: Any) -> tuple[Callable, Any, Any]:
    """One batched product of all tiles, the last one filled up, over rows of x turned."""
    import torch

    tiles = _tiles(*given)
    y = tiles.x.new_zeros(len(tiles.weight) + _TILE, len(tiles.x))
    rows = torch.stack(tiles.rows)
    values = tiles.x.new_zeros(len(rows), _TILE, rows.shape[1])
    columns = torch.arange(len(tiles.weight), len(tiles.weight) + _TILE, device="cuda")
    columns = columns.repeat(len(rows), 1)  # of those that are no one's
    for number, (own, value) in enumerate(zip(tiles.columns, tiles.values, strict=True)):
        values[number, : len(own)], columns[number, : len(own)] = value, own

    def launch() -> None:
        x = tiles.x.t().contiguous()
        y.index_copy_(0, columns.view(-1), torch.bmm(values, x[rows]).view(-1, len(tiles.x)))

    launch()
    return launch, y[: len(tiles.weight)], _expected(tiles).t()


def _expected(tiles: Tiles) -> Any:
    return tiles.x.float() @ tiles.weight.float().t()


KINDS = {
    "masked": masked, "gathered": gathered, "transposed": transposed, "streams": streams,
    "batched": batched,
}  # fmt: skip
