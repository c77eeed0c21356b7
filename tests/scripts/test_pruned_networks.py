"""Layers of pruned networks: their sizes, and how measured times add up to a network's."""

from __future__ import annotations

import pytest
from cases.pruned_cases import PrunedCase
from cases.pruned_networks import NETWORKS, network_cases
from pruned_products.networks_plot import Speedup, dense_speedups, speedups

from autoq.pruning.pattern import Pattern
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.sparsity import ELEMENTS, TILE_WISE, TWO_FOUR_TILES, VECTORS

NMT = NETWORKS["NMT, a step of 128 sentences"]


@pytest.mark.parametrize(
    "network, layers, multiplications",
    [
        ("VGG-16, 1 image", 15, 15.38e9),
        ("ResNet-18, 8 images", 20, 13.57e9),
        ("ResNet-50, 8 images", 53, 31.77e9),
        ("BERT, 1024 tokens", 72, 86.97e9),
    ],
)
def test_networks_have_their_known_sizes(network, layers, multiplications):
    products = NETWORKS[network].products
    assert products.total() == layers
    found = sum(count * m * n * k for (m, n, k), count in products.items())
    assert found == pytest.approx(multiplications, rel=1e-3)


def test_cases_are_distinct_and_of_both_types():
    cases = network_cases([NMT])
    assert len({case.name for case in cases}) == len(cases) == 2 * 6 * len(NMT.products)
    assert {case.dense.in_dtype for case in cases} == {"int8", "float16"}


def rows(dense: float, pruned: float) -> list[dict]:
    made = []
    for case in network_cases([NMT]):
        own = {"template": "t", "us": 4.0, "dense": True}
        for row in ({"peer": "cublaslt", "us": dense}, own, {"template": "t", "us": pruned}):
            made.append({"case": case.name, **row})
    return made


def test_times_add_up_over_layers_and_dense_ones_are_chosen_where_faster():
    found = speedups(rows(6.0, 3.0), "int8", NMT)
    assert len(found) == 6 and set(found.values()) == {Speedup(2.0, 2.0)}
    slower = speedups(rows(6.0, 12.0), "float16", NMT)
    assert slower["tw-128 0.75"] == Speedup(0.5, 1.5)


def test_libraries_count_where_they_have_all_layers():
    made = rows(6.0, 3.0)
    blocks = [case.name for case in network_cases([NMT]) if "bw-16" in case.name]
    made += [{"case": name, "peer": "blocked_ell", "us": 12.0} for name in blocks]
    assert speedups(made, "int8", NMT)["bw-16 0.75"].library == 0.5
    assert speedups(made[:-1], "float16", NMT)["bw-16 0.75"].library == 0
    assert dense_speedups(made, "float16", NMT) == {
        "autoq, all weights": 1.5, "cuBLASLt int8, all weights": 1.0
    }  # fmt: skip


def test_the_fastest_right_row_counts():
    case = network_cases([NMT])[0].name
    more = [
        {"case": case, "template": "t", "us": 1.0, "failure": "wrong"},
        {"case": case, "template": "t", "us": 2.0},
    ]
    count = next(iter(NMT.products.values()))
    total = NMT.products.total()
    found = speedups([*rows(6.0, 3.0), *more], "int8", NMT)
    expected = 6.0 * total / (3.0 * (total - count) + 2.0 * count)
    assert found["tw-128 0.5"].alone == pytest.approx(expected)


def test_patterns_with_a_layer_that_was_not_measured_are_left_out():
    missing = network_cases([NMT])[0].name
    left = [row for row in rows(6.0, 3.0) if row["case"] != missing]
    assert "tw-128 0.5" not in speedups(left, "int8", NMT)
    assert "tw-128 0.75" in speedups(left, "int8", NMT)


@pytest.mark.parametrize(
    "dtype, pattern, kind",
    [
        ("int8", Pattern.make("bw", 16), VECTORS),
        ("int8", Pattern.make("bw", 64), TILE_WISE),
        ("int8", Pattern.make("tvw", 64), TWO_FOUR_TILES),
        ("int8", Pattern.make("tvw", 64, "4:16"), TILE_WISE),
        ("float32", Pattern.make("bw", 16), ELEMENTS),
    ],
)
def test_a_case_knows_the_class_of_its_zeros(dtype, pattern, kind):
    case = PrunedCase(Gemm(32, 128, 128, dtype, dtype, Epilogue(dtype)), 0.75, pattern)
    assert case.workload(case.arrays()[1]).sparsity.pattern == kind
