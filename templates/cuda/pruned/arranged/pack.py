"""A tile-wise weight as a 2:4 one: the order of k, the packed weight, and words of y."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.pruned.arranged.banks import in_banks
from autoq.templates.cuda.pruned.arranged.config import BLOCK_COLUMNS, ArrangedTiling
from autoq.templates.cuda.pruned.tile_wise.words import pack_words
from autoq.templates.cuda.pruned.two_four.kernel import epilogue_of, pack_terms
from autoq.templates.cuda.pruned.two_four.pack import pack_weight, weight_spec
from autoq.templates.sparse.pruned_matrix import Tile
from autoq.templates.sparse.stage_arrangement import arrange_stages, stages_needed
from autoq.templates.workload import Constants

_OF_COLUMNS = ("bias", "float_bias", "scale")
"""Constants that have a value for each column of y, or one for all."""


def packed_all(tiling: ArrangedTiling) -> tuple[TensorSpec, ...]:
    """The arrays of `pack_all`."""
    sparse = tiling.sparse
    lists = (tiling.order_spec, tiling.stages_spec, tiling.spans_spec, tiling.places_spec)
    return (*lists, weight_spec(sparse), *epilogue_of(sparse).constant_parameters())


def pack_all(tiling: ArrangedTiling, constants: Constants) -> tuple[np.ndarray, ...]:
    """The lists, the weight and what the epilogue reads of the columns that are left."""
    view, sparse = tiling.view, tiling.sparse
    weight = view.weight(constants)
    found = view.sparsity.tiles_of(weight)
    columns = np.concatenate([np.zeros(0, np.int64), *(tile.columns for tile in found)])
    tiles = max(1, -(-len(columns) // tiling.unit_columns)) * tiling.config.cluster
    units = _units(tiling, [len(tile.columns) for tile in found], tiles)
    arrangement = arrange_stages(_kept(found, view.k), units, tiling.unit, tiling.depth // 4)
    lying = in_banks(arrangement.k, tiling.unit, view.value.bytes).reshape(-1)
    k = arrangement.k.reshape(-1)[lying]
    order = np.zeros(tiling.order_spec.shape, np.int32)
    order[:2] = len(arrangement.k) // tiling.unit, tiles
    order[4:].view(np.uint16)[: len(k)] = np.maximum(k, 0)
    left = np.zeros((len(columns), len(k)), weight.dtype)
    first = 0
    for tile, used in zip(found, arrangement.used, strict=False):
        own, there = slice(first, first := first + len(tile.columns)), used.reshape(-1)[lying]
        left[own, there] = weight[np.ix_(tile.columns, k[there])]
    of_columns = {
        name: np.asarray(constants[name])[columns]
        for name in _OF_COLUMNS
        if np.shape(constants.get(name))[:1] == (view.n,)
    }
    given = {**constants, **of_columns, "weight": left}
    needed = stages_needed(units, arrangement, tiling.unit).repeat(tiling.config.cluster, axis=0)
    spans, places = _words(tiling, columns, view.of_no_weight(constants))
    lists = (order, _stages(tiling, needed), spans, places)
    return (*lists, _packed(tiling, given, needed), *pack_terms(sparse, given))


def _kept(found: Sequence[Tile], k: int) -> np.ndarray:
    """bool [tiles, k] what each tile keeps; one that keeps nothing where there is none."""
    kept = np.zeros((max(1, len(found)), k), bool)
    for own, tile in zip(kept, found, strict=False):
        own[tile.rows] = True
    return kept


def _units(tiling: ArrangedTiling, widths: Sequence[int], tiles: int) -> np.ndarray:
    """bool [clusters of tiles of weights, tiles] which of them blocks that share x multiply."""
    ends = np.cumsum([0, *(widths or [0])])
    firsts = np.arange(tiles // tiling.config.cluster)[:, None] * tiling.unit_columns
    return (ends[1:] > firsts) & (ends[:-1] < firsts + tiling.unit_columns)


def _stages(tiling: ArrangedTiling, needed: np.ndarray) -> np.ndarray:
    """Where the stages of each tile begin, and which they are, as `stages_spec` says."""
    found, tiles = np.zeros(tiling.stages_spec.shape, np.int32), tiling.sparse.weight_tiles
    ends = np.cumsum(needed.sum(axis=1))
    found[1 : tiles + 1] = ends[-1]
    found[1 : len(ends) + 1] = ends
    found[tiles + 1 :][: ends[-1]] = np.nonzero(needed)[1]
    return found


def _packed(tiling: ArrangedTiling, constants: Constants, needed: np.ndarray) -> np.ndarray:
    """The weight of the stages that tiles need, behind each other; then what is left over."""
    sparse, depth = tiling.sparse, constants["weight"].shape[1]
    spec, work = weight_spec(sparse), replace(sparse.view.workload, k=depth)
    own = replace(sparse, view=replace(sparse.view, workload=work))
    packed = pack_weight(own, constants)[: len(needed)][needed]
    whole = np.zeros(spec.shape, np.uint8)
    whole.reshape(-1, spec.shape[-1])[: len(packed)] = packed
    return whole


def _words(
    tiling: ArrangedTiling, columns: np.ndarray, dead: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """spans and places: a block writes from its first column to the next one's."""
    blocks, n = tiling.blocks, tiling.view.n
    own = np.full((blocks, BLOCK_COLUMNS), n)
    own.reshape(-1)[: len(columns)] = columns
    firsts = np.append(own[:, 0], n)
    firsts[0] = 0
    ranges = np.stack([firsts[:-1], np.diff(firsts)], axis=1)
    places = np.zeros(tiling.places_spec.shape, np.int32)
    return pack_words(ranges, own, dead, places), places
