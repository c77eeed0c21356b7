"""Rows of products with pruned weights join those of earlier runs."""

from __future__ import annotations

from pruned_products.joining import joined, of_today

from autoq.search.knobs import plain_config
from autoq.templates.cuda.pruned.two_four import gemm_two_four
from autoq.templates.cuda.pruned.two_four_mma_sync import gemm_two_four_mma_sync
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
WORK = Gemm(512, 256, 320, sparsity=Sparsity.two_four())
TEMPLATE = gemm_two_four.TEMPLATE
CONFIG = plain_config(TEMPLATE.default(WORK, TARGET))


def _row(us, **fields):
    return {"case": "one", "template": "gemm_two_four", "config": CONFIG, "us": us} | fields


def test_a_row_replaces_that_of_the_same_kernel_and_case_alone():
    others = [
        _row(1.0, case="two"), _row(2.0, config={**CONFIG, "stages": 3}), _row(3.0, dense=True),
        {"case": "one", "peer": "cublaslt", "us": 4.0},
    ]  # fmt: skip
    swapped = dict(reversed(CONFIG.items()))
    found = joined([_row(9.0), *others], _row(5.0, config=swapped))
    assert [row["us"] for row in found] == [1.0, 2.0, 3.0, 4.0, 5.0]
    found = joined(found, {"case": "one", "peer": "cublaslt", "us": 6.0})
    assert [row["us"] for row in found] == [1.0, 2.0, 3.0, 5.0, 6.0]


def test_rows_of_configurations_that_are_no_more_go_from_the_measured_case():
    gone = {**CONFIG, "some_knob": 1}
    kept = [
        _row(1.0), _row(2.0, case="two", config=gone), _row(3.0, config=gone, dense=True),
        {"case": "one", "peer": "cusparselt", "us": 4.0}, {"case": "one", "config": {}, "us": 7.0},
    ]  # fmt: skip
    rows = [*kept, _row(5.0, config=gone), _row(6.0, template="gone")]
    assert of_today(rows, "one", WORK, [TARGET]) == kept


def test_rows_of_kernels_for_another_target_stay_where_both_are_named():
    ampere = parse_target("cuda:sm_80")
    default = gemm_two_four_mma_sync.TEMPLATE.default(WORK, ampere)
    row = _row(1.0, template="gemm_two_four_mma_sync", config=plain_config(default))
    assert of_today([row], "one", WORK, [TARGET]) == []
    assert of_today([row], "one", WORK, [TARGET, ampere]) == [row]
