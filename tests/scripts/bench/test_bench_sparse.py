"""What bench_sparse.py measures, prepares and makes of the collection's rows, without a GPU."""

from __future__ import annotations

import argparse
import functools
import json
from pathlib import Path

import numpy as np
import pytest
from array_files import read_arrays
from cases.sparse_cases import (
    ONE_SCALE,
    PAIRS,
    LayerCase,
    collection_cases,
    equal_rows,
    layer_cases,
)
from peers.vector_kernels import STRIDE, magicube_arrays
from sparse_products.candidates import add_options, jobs_of, knob_lists
from sparse_products.collection import condensed, joined, means
from sparse_products.kernels import prepare
from with_nvcc import needs_nvcc

from autoq.templates.cuda.sparse.spmm_panel import TEMPLATE
from autoq.templates.registry import matching
from autoq.templates.sparse.vector_matrix import from_dense
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")


def options(text: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_options(parser)
    return parser.parse_args(text.split())


def test_the_collection_has_sixteen_uneven_matrices_of_each_sparsity_at_three_widths() -> None:
    cases = collection_cases()
    assert len({case.name for case in cases}) == len(cases) == 3 * 96
    for case in cases[::30]:
        _, constants = case.arrays()
        case.workload.check_constants(constants)
        lengths = np.diff(constants["pointers"])
        assert 0.3 < lengths.std() / lengths.mean() < 0.5
        assert lengths.mean() == pytest.approx((1 - case.sparsity) * case.workload.k, rel=0.05)


def test_values_of_twelve_bits_and_floats_are_of_their_types() -> None:
    by_pair = {case.name.rsplit(" ", 1)[1]: case for case in layer_cases()}
    assert list(by_pair) == [pair.name for pair in PAIRS]
    _, constants = by_pair["L12-R4"].arrays()
    values = constants["values"]
    assert values.dtype == np.int16 and (values.min(), values.max()) == (-2048, 2047)
    (b,), constants = by_pair["f16"].arrays()
    assert b.dtype == constants["values"].dtype == np.float16


def test_the_best_of_each_value_are_legal_and_the_default_comes_first() -> None:
    case = equal_rows(256, 512, 128, 0.9)
    space = TEMPLATE.space(case.workload, TARGET)
    jobs = jobs_of(
        0, case, TARGET, options("--templates spmm_panel --each columns,staged --most 4")
    )
    assert jobs[0].config == TEMPLATE.default(case.workload, TARGET)
    assert all(job.config in space for job in jobs) and 4 <= len(jobs) <= 5
    assert len({(job.config.columns, job.config.staged) for job in jobs}) == 4
    ablated = jobs_of(0, case, TARGET, options("--ablation"))
    first, *rest = [job.config for job in ablated if job.template == "spmm_panel"]
    changed = [
        sum(vars(own)[name] != value for name, value in vars(first).items())
        for own in (first, *rest)
    ]
    assert set(changed) == {0, 1} and len(changed) > 10
    assert ablated[0].template == matching(case.workload, TARGET)[0].name
    assert sum(job.template == "spmm_online" for job in ablated) >= 4


def test_knobs_are_read_from_one_text() -> None:
    assert knob_lists("columns=64,staged=true;warps=4") == [
        {"columns": 64, "staged": True},
        {"warps": 4},
    ]


@needs_nvcc
def test_a_case_is_prepared_with_its_outputs_and_packed_constants(tmp_path: Path) -> None:
    case = equal_rows(64, 96, 32, 0.5)
    of_case = functools.partial(jobs_of, target=TARGET, options=options("--templates spmm_panel"))
    assert list(prepare([case], of_case, tmp_path, TARGET, tmp_path / "kernels", 1)) == []
    activations, expected, uneven = read_arrays(tmp_path / "0000.case")
    np.testing.assert_array_equal(expected[0], case.workload.reference(*case.arrays())[0])
    np.testing.assert_array_equal(activations[0], case.arrays()[0][0])
    name, knobs, packed = read_arrays(tmp_path / "0000-000.job")
    assert (name, uneven) == ("spmm_panel", 0.0)
    config = TEMPLATE.space(case.workload, TARGET).from_dict(knobs)
    specs = TEMPLATE.packed(case.workload, config)
    assert [array.shape for array in packed] == [spec.shape for spec in specs]


def test_means_are_geometric_and_the_fastest_blocks_are_chosen_by_matrix() -> None:
    rows = []
    for case, us, peers in (("a, n 256, 0.5", (4.0, 2.0), (8.0, 4.0)),
                            ("b, n 256, 0.5", (9.0, 9.0), (9.0, 81.0))):  # fmt: skip
        rows += [
            {"case": case + of, "template": "spmm_panel", "config": {"n": one}, "us": one / less,
             "sparsity": 0.5, "variation": 0.4, "date": "2026-01-02", "commit": "01234567"}
            for of, less in (("", 1), (ONE_SCALE, 2)) for one in us
        ]  # fmt: skip
        rows += [
            {"case": case, "peer": f"blocked_ell_int8 {block}", "us": one}
            for block, one in zip((8, 64), peers, strict=True)
        ]
    found = joined([], condensed([json.loads(json.dumps({"rows": rows}))]))
    assert [(row["default_us"], row["us"], row["tried"]) for row in found] == [(4, 2, 2), (9, 9, 1)]
    assert [(row["one_scale_default_us"], row["one_scale_us"]) for row in found] == [
        (2, 1), (4.5, 4.5),
    ]  # fmt: skip
    by_peer = {row["peer"]: row for row in means(found) if row["sparsity"] is None}
    fastest, eights = by_peer["blocked_ell_fastest"], by_peer["blocked_ell_int8 8"]
    assert (fastest["by_default"], fastest["by_fastest"]) == (1.0, pytest.approx(2**0.5, abs=1e-3))
    assert (eights["by_default"], eights["by_fastest"]) == (pytest.approx(2**0.5, abs=1e-3), 2.0)
    assert fastest["matrices"] == 2
    assert (eights["by_one_scale_default"], eights["by_one_scale"]) == (
        pytest.approx(2**1.5, abs=1e-3), 4.0,
    )  # fmt: skip


def test_times_that_are_new_stand_beside_those_of_an_earlier_run() -> None:
    kept = [{"case": "a", "n": 256, "us": 4.0, "magicube": 8.0, "int8": 3.0},
            {"case": "b", "n": 128, "us": 5.0, "magicube": 9.0}]  # fmt: skip
    found = joined(kept, [{"case": "a", "n": 256, "us": 2.0, "int8": 3.5, "commit": "01234567"}])
    assert found[0] == kept[1]
    assert found[1] == {
        "case": "a", "n": 256, "us": 2.0, "magicube": 8.0, "int8": 3.5, "commit": "01234567",
    }  # fmt: skip
    found = joined(kept, [{"case": "b", "n": 128, "one_scale_us": 4.0}])
    assert found[0] == {**kept[1], "one_scale_us": 4.0}


def test_magicube_gets_the_matrix_of_a_case_in_strides_of_sixteen() -> None:
    rng = np.random.default_rng(3)
    dense = (rng.integers(1, 9, (24, 50)) * (rng.random((24, 50)) < 0.4)).astype(np.uint8)
    dense[8:16] = 0
    matrix = from_dense(dense, 8)
    rows, columns, values = magicube_arrays(matrix)
    found = np.zeros_like(dense)
    for number, (begin, end) in enumerate(rows):
        assert begin % STRIDE == 0 and (columns[end : -(-end // STRIDE) * STRIDE] == -1).all()
        for at in range(begin, end):
            found[8 * number : 8 * number + 8, columns[at]] = values[at // STRIDE, :, at % STRIDE]
    np.testing.assert_array_equal(found, dense)


def test_a_layer_computes_the_product_of_its_case_the_other_way_round() -> None:
    case = LayerCase(equal_rows(64, 96, 32, 0.5))
    (x,), constants = case.arrays()
    case.workload.check_constants(constants)
    _, sparse = case.of.arrays()
    matrix = case.of.workload.matrix(sparse)
    np.testing.assert_array_equal(constants["weight"], matrix.to_dense())
    jobs = jobs_of(0, case, TARGET, options("--templates gemm_wgmma,gemm_spmm_panel --recorded"))
    assert {job.template for job in jobs} == {"gemm_wgmma", "gemm_spmm_panel"}
    assert x.shape == (32, 96) and case.workload.dense != case.workload


def test_the_first_templates_are_those_that_are_used_untuned() -> None:
    case = next(case for case in collection_cases() if case.name.endswith("n 256, 0.98"))
    everything = [job.template for job in jobs_of(0, case, TARGET, options(""))]
    first = [job.template for job in jobs_of(0, case, TARGET, options("--first 2"))]
    assert first == everything[:2] and len(everything) > 2


def test_of_what_ships_there_is_the_untuned_choice_and_the_fastest_record() -> None:
    case = next(c for c in collection_cases() if c.name == "512x512 dilated by 8, n 256, 0.9")
    untuned, shipped = jobs_of(0, case, TARGET, options("--shipped"))
    assert untuned == jobs_of(0, case, TARGET, options("--first 1"))[0]
    all_recorded = jobs_of(0, case, TARGET, options("--recorded"))
    assert shipped in all_recorded and shipped != untuned
