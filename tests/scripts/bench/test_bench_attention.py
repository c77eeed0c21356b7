"""What bench_attention.py and bench_sampled.py prepare, without a GPU."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import bench_attention
import bench_sampled
import numpy as np
import pytest
from array_files import read_arrays
from bench_attention import MaskedCase
from cases.sampled_collection import sampled_collection
from cases.sparse_attention_cases import ATTENTION, class_of
from sparse_products.kernels import prepare
from with_nvcc import needs_nvcc

from autoq.templates.operators.sddmm import Sddmm
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")


@needs_nvcc
def test_sampled_products_are_prepared_with_the_left_side_ahead_and_not(tmp_path: Path) -> None:
    structure = class_of(32, 64, 0.5)
    case = MaskedCase(Sddmm(32, 64, 64, 8, structure, "int8", "int8", "int32"))
    of_case = functools.partial(bench_attention.jobs_of, target=TARGET, knobs=[])
    assert list(prepare([case], of_case, tmp_path, TARGET, tmp_path / "kernels", 1)) == []
    _, expected, _ = read_arrays(tmp_path / "0000.case")
    np.testing.assert_array_equal(expected[0], case.workload.reference(*case.arrays())[0])
    found = [read_arrays(path) for path in sorted(tmp_path.glob("0000-*.job"))]
    assert {name for name, _, _ in found} == {"sddmm_gathered"}
    assert sorted(knobs["ahead"] for _, knobs, _ in found) == [False, True]


def test_named_knobs_change_the_kernel_that_has_them() -> None:
    knobs = [{"slot": 256, "slots": 6}, {"slot": 256, "slots": 12}, {"columns": 64}]
    jobs = bench_attention.jobs_of(3, MaskedCase(ATTENTION[1]), TARGET, knobs)
    fused = [job.config for job in jobs if job.template == "sparse_attention_fused"]
    # Twelve slots of 256 keys do not fit, and no kernel here has columns.
    assert [(config.slot, config.slots) for config in fused[1:]] == [(256, 6)]
    assert {job.template for job in jobs} == {"sparse_attention_fused", "sparse_attention_staged"}
    assert {job.case for job in jobs} == {3}


def test_the_collection_runs_with_defaults() -> None:
    case = sampled_collection()[0]
    (job,) = bench_sampled.jobs_of(7, case, TARGET)
    assert (job.case, job.template) == (7, "sddmm_gathered")


def test_rows_of_sampled_products_that_are_there_stay(tmp_path: Path) -> None:
    head = {"device": "a GPU", "date": "2026-01-02", "commit": "fedcba98"}
    path = tmp_path / "sampled.json"
    assert bench_sampled.kept_rows(path, head, ()) == []
    old = {"device": "a GPU", "date": "2026-01-01", "commit": "01234567"}
    rows = [{"case": "one", "us": 1.0}, {"case": "two", "us": 2.0}]
    path.write_text(json.dumps({**old, "rows": rows}))
    (kept,) = bench_sampled.kept_rows(path, head, {"two"})
    assert kept == {"case": "one", "us": 1.0, "date": "2026-01-01", "commit": "01234567"}
    with pytest.raises(SystemExit, match="is of a GPU, this device is another"):
        bench_sampled.kept_rows(path, {**head, "device": "another"}, ())
