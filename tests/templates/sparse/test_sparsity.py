"""The class of a weight's zeros: in keys, in random weights, and recognised from a weight."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autoq.errors import InputError
from autoq.graph.known_zeros import tile_wise_classes
from autoq.pruning.patterns.tile_wise import tile_wise
from autoq.pruning.ranking import Bounds
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.sparse.structure import Structure
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
