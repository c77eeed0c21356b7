"""A tile-wise weight as a 2:4 one: the order of k, the packed weight, and words of y."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cuda.pruned.arranged.config import BLOCK_COLUMNS, ArrangedTiling
from autoq.templates.cuda.pruned.tile_wise.words import pack_words
from autoq.templates.cuda.two_four.kernel import epilogue_of, pack_terms
from autoq.templates.cuda.two_four.pack import pack_weight, weight_spec
from autoq.templates.sparse.arrangement import NO_K, arrange
from autoq.templates.workload import Constants

_OF_COLUMNS = ("bias", "float_bias", "scale")
"""Constants that have a value for each column of y, or one for all."""


def packed_all(tiling: ArrangedTiling) -> tuple[TensorSpec, ...]:
    """The arrays of `pack_all`."""
    sparse = tiling.sparse
    own = (tiling.order_spec, tiling.spans_spec, tiling.places_spec, weight_spec(sparse))
    return (*own, *epilogue_of(sparse).constant_parameters())


def pack_all(tiling: ArrangedTiling, constants: Constants) -> tuple[np.ndarray, ...]:
    """order, spans, places, weight and what the epilogue reads of the columns that are left."""
    view, sparse = tiling.view, tiling.sparse
    weight = view.weight(constants)
    columns = np.flatnonzero((weight != 0).any(axis=1))
    groups = arrange(_kept(tiling, weight), tiling.unit)
    k = groups.reshape(-1)
    order = np.zeros(tiling.order_spec.shape, np.int32)
    rows = sparse.tile_rows * tiling.config.cluster
    tiles = max(1, -(-len(columns) // rows)) * tiling.config.cluster
    order[:2] = len(groups) // tiling.unit, tiles
    order[4:].view(np.uint16)[: len(k)] = np.maximum(k, 0)
    left = np.zeros((len(columns), len(k)), weight.dtype)
    left[:, k != NO_K] = weight[np.ix_(columns, k[k != NO_K])]
    spans, places = _words(tiling, columns, view.of_no_weight(constants))
    of_columns = {
        name: np.asarray(constants[name])[columns]
        for name in _OF_COLUMNS
        if np.shape(constants.get(name))[:1] == (view.n,)
    }
    given = {**constants, **of_columns, "weight": left}
    return (order, spans, places, _packed(tiling, given), *pack_terms(sparse, given))


def _kept(tiling: ArrangedTiling, weight: np.ndarray) -> np.ndarray:
    """bool [tiles, k] what each tile keeps; one that keeps nothing where there is none."""
    found = tiling.view.sparsity.tiles_of(weight)
    kept = np.zeros((max(1, len(found)), tiling.view.k), bool)
    for own, tile in zip(kept, found, strict=False):
        own[tile.rows] = True
    return kept


def _packed(tiling: ArrangedTiling, constants: Constants) -> np.ndarray:
    """The weight, stages of a tile behind each other and what is left over behind all tiles."""
    sparse, depth = tiling.sparse, constants["weight"].shape[1]
    spec = weight_spec(sparse)
    own = replace(sparse, view=replace(sparse.view, workload=replace(
        sparse.view.workload, k=depth
    )))  # fmt: skip
    packed = pack_weight(own, constants).reshape(-1)
    whole = np.zeros(spec.shape, np.uint8)
    whole.reshape(-1)[: len(packed)] = packed
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
