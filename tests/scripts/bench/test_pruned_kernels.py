"""Kernels of pruned weights come out of their file as they were made."""

from __future__ import annotations

import numpy as np
from cases.pruned_cases import PrunedCase
from pruned_products.kernels import Asked, prepared
from with_nvcc import needs_nvcc

from autoq.devices import Host
from autoq.pruning.pattern import Pattern
from autoq.runtime.kernel_json import machine_code
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import parse_target

HOST = Host(parse_target("cuda:sm_90a"), None)


@needs_nvcc
def test_a_case_is_made_once_and_read_as_it_was_made(tmp_path):
    dense = Gemm(64, 256, 320, epilogue=Epilogue("int8"))
    case = PrunedCase(dense, 0.9, Pattern.make("ew"))
    asked = Asked(((),), HOST, dense=True)
    made, read = (prepared(case, asked, tmp_path) for _ in range(2))
    assert len(list(tmp_path.glob("*.npz"))) == 1
    assert [one.dense for one in read.candidates].count(True) == 1 and read.candidates[-1].dense
    assert made.workload == read.workload and made.workload.sparsity is not None
    (wanted,) = case.dense.reference(*case.arrays())
    np.testing.assert_array_equal(read.expected[0], wanted)
    pairs = list(zip(made.candidates, read.candidates, strict=True))
    assert pairs
    for first, second in pairs:
        assert (first.template, first.config, first.failure) == (
            second.template, second.config, second.failure
        )  # fmt: skip
        if first.kernel is not None:
            assert machine_code(first.kernel) == machine_code(second.kernel)
            assert len(first.packed) == len(second.packed)
    assert any(second.kernel is not None for _, second in pairs)


@needs_nvcc
def test_knobs_are_for_all_templates_or_for_one(tmp_path):
    """A set of knobs names a template, or holds for every one that has them."""
    case = PrunedCase(Gemm(64, 256, 320), 0.75, Pattern.make("tw", 64))
    knobs = (("stages=3",), ("gemm_tile_picked:", "stages=4"), ("gemm_tile_wise:", "stages=5"))
    made = prepared(case, Asked(knobs, HOST), tmp_path)
    found = {(one.template, one.config["stages"]) for one in made.candidates}
    assert found == {
        ("gemm_columns_wgmma", 3), ("gemm_tile_picked", 3),
        ("gemm_tile_wise", 3), ("gemm_tile_picked", 4), ("gemm_tile_wise", 5),
    }  # fmt: skip


@needs_nvcc
def test_kernels_of_gpus_without_wgmma_stand_beside(tmp_path):
    """Dense ones too, which take knobs of their own."""
    case = PrunedCase(Gemm(64, 256, 320), 0.5, Pattern.make("vw", 4))
    knobs = ((), ("conv2d_mma_sync:", "stages=2"))
    made = prepared(case, Asked(knobs, HOST, dense=True, without_wgmma=True), tmp_path)
    found = [(one.template, one.dense) for one in made.candidates]
    assert found[0] == ("gemm_two_four", False) and found[1][1]
    assert found[2:] == [
        ("gemm_two_four_mma_sync", False), ("conv2d_mma_sync", True), ("conv2d_mma_sync", True),
    ]  # fmt: skip
    assert made.candidates[-1].config["stages"] == 2 != made.candidates[-2].config["stages"]
    assert all(one.failure is None for one in made.candidates)
