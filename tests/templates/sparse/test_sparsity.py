"""The class of a weight's zeros: in keys, in random weights, and recognised from a weight."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autoq.errors import InputError
from autoq.graph.known_zeros import tile_wise_classes, two_four_tile_classes
from autoq.pruning.matrices import prune_matrices
from autoq.pruning.pattern import Pattern
from autoq.pruning.patterns.tile_wise import tile_wise
from autoq.pruning.ranking import Bounds
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.sparse.structure import Structure, bucket
from autoq.templates.sparse.two_four import group_starts
from autoq.templates.workload_key import from_dict, key, to_dict

CLASS = Sparsity("tw", 16, 56, Structure(96, 24, 40))
PRODUCTS = (Gemm(9, 80, 70), FloatGemm(9, 80, 70, weight_dtype="float16"))


@pytest.mark.parametrize("dense", PRODUCTS, ids=str)
def test_a_product_that_knows_its_zeros_is_another_workload(dense: Gemm | FloatGemm) -> None:
    knowing = dense.with_sparsity(CLASS)
    assert knowing is not None and knowing != dense and knowing.dense == dense.dense == dense
    assert from_dict(to_dict(knowing)) == knowing and key(knowing) != key(dense)
    assert "sparsity" not in key(dense)
    assert knowing.operations == 2 * 9 * 96 * 16 < dense.operations


@pytest.mark.parametrize("dense", PRODUCTS, ids=str)
def test_random_weights_come_up_to_the_class_and_not_beyond(dense: Gemm | FloatGemm) -> None:
    knowing = dense.with_sparsity(CLASS)
    assert knowing is not None
    _, constants = knowing.random_case(np.random.default_rng(3))
    knowing.check_constants(constants)
    found = Sparsity.of_tiles(constants["weight"], 16)
    assert found.columns == 56 and found.structure.longest_row == 40
    narrow = replace(dense, sparsity=replace(CLASS, structure=Structure(48, 24, 40)))
    with pytest.raises(InputError, match="the weight is of tw-16, not of tw-16"):
        narrow.check_constants(constants)


@pytest.mark.parametrize("sparsity", [0.5, 0.9])
@pytest.mark.parametrize("granularity", [8, 32, 128])
def test_the_pruned_granularity_is_found(sparsity: float, granularity: int) -> None:
    rng = np.random.default_rng(4)
    weight = rng.integers(1, 128, (300, 256), np.int8)
    (made,) = tile_wise([rng.random((256, 300))], sparsity, [Bounds()], granularity)
    first = next(tile_wise_classes(np.where(made.mask.T, weight, 0)))
    assert first == Sparsity.of_tiles(np.where(made.mask.T, weight, 0), granularity)
    assert first.granularity == granularity


@pytest.mark.parametrize("vector", ["2:4", "4:16", "8:16"])
@pytest.mark.parametrize("granularity", [8, 32, 128])
def test_tiles_that_are_2_4_inside_are_found(vector: str, granularity: int) -> None:
    rng = np.random.default_rng(4)
    scores = rng.random((256, 300))
    pattern = Pattern.make("tvw", granularity, vector)
    (made,) = prune_matrices([scores], pattern, 0.8, [Bounds()])
    weight = np.where(made.mask.T, rng.integers(1, 128, (300, 256), np.int8), np.int8(0))
    found = list(two_four_tile_classes(weight))
    assert bool(found) == (vector == "2:4")
    for known in found:
        assert known.less_known in list(tile_wise_classes(weight))
        known.check(weight, "w")
        fewer = replace(known, beside=Structure(known.beside.blocks // 2, 1, 1))
        with pytest.raises(InputError, match=f"w: the weight is of tvw-{known.granularity}"):
            fewer.check(weight, "w")


@pytest.mark.parametrize("seed", range(4))
def test_groups_are_the_fewest_that_keep_two_in_each_column(seed: int) -> None:
    """By trying all ways to cut few rows into groups of up to four."""
    rng = np.random.default_rng(seed)
    nonzero = rng.random((int(rng.integers(1, 11)), 3)) < rng.uniform(0.2, 0.9)
    rows = len(nonzero)
    starts = group_starts(nonzero)
    parts = np.split(nonzero, starts[1:])
    assert starts[0] == 0 and all(len(p) <= 4 and p.sum(0).max() <= 2 for p in parts)
    fewest = [0]
    for end in range(1, rows + 1):
        fits = (n for n in range(1, min(4, end) + 1) if nonzero[end - n : end].sum(0).max() <= 2)
        fewest.append(1 + min(fewest[end - n] for n in fits))
    assert len(starts) == fewest[rows]


@pytest.mark.parametrize("dense", PRODUCTS, ids=str)
def test_random_weights_of_2_4_tiles_are_of_their_class(dense: Gemm | FloatGemm) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        drawn = rng.integers(0, (30, 8, 12, 120, 30, 50, 80))
        most = [bucket(int(bound)) for bound in drawn]
        groups, rows = Structure(*most[:3]), Structure(*most[3:6])
        known = Sparsity("tvw", int(rng.integers(1, 20)), most[6], rows, groups)
        kept = known.pruned(rng, np.ones((80, 70), np.int8))
        known.check(kept, "w")
        knowing = dense.with_sparsity(known)
        assert knowing is not None and from_dict(to_dict(knowing)) == knowing


def test_zeros_by_chance_are_no_pattern() -> None:
    rng = np.random.default_rng(5)
    weight = rng.integers(-5, 6, (96, 80), np.int8)
    assert list(tile_wise_classes(weight)) == []
    assert list(tile_wise_classes(np.where(rng.random((96, 80)) < 0.3, weight, 0))) == []


def test_what_is_no_class_is_one_line() -> None:
    with pytest.raises(InputError, match="pattern 'xw': one of tw, 2:4, vectors"):
        replace(CLASS, pattern="xw")
    with pytest.raises(InputError, match="granularity 0: columns of a tile, 1 or more"):
        replace(CLASS, granularity=0)
    with pytest.raises(InputError, match="of one weight of floats alone"):
        FloatGemm(9, 80, 70, sparsity=CLASS)
