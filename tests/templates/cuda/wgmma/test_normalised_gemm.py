"""Products whose rows a cluster normalises: on the emulator and on a GPU, every element."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gpu_kernels import assert_right, hopper_target, sampled
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.templates.cuda.wgmma.config import Shared
from autoq.templates.cuda.wgmma.normalised_gemm_wgmma import TEMPLATE
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.normalised_gemm import NormalisedGemm
from autoq.templates.target import parse_target

HOPPER = parse_target("cuda:sm_90a")
REQUANTISED = Epilogue("uint8", "int8", True)
ON_GPU = [
    NormalisedGemm(1024, 768, 768, "uint8", epilogue=REQUANTISED, out_dtype="uint8"),
    NormalisedGemm(1000, 768, 3072, "uint8", epilogue=Epilogue("int8", "uint8", True)),
    NormalisedGemm(130, 256, 96, epilogue=Epilogue("uint8"), out_dtype="uint8"),
    NormalisedGemm(517, 96, 272, "uint8", epilogue=Epilogue("int8", "int8")),
]


@needs_nvcc
@pytest.mark.parametrize("shared", [Shared.ROWS, Shared.ACTIVATIONS], ids=lambda one: one.value)
def test_right_on_the_emulator(shared: Shared) -> None:
    """Rows that end within a tile, in clusters of three."""
    workload = NormalisedGemm(70, 144, 96, "uint8", epilogue=REQUANTISED)
    default = TEMPLATE.default(workload, HOPPER)
    grid = replace(default.grid, cluster=3, shared=shared)
    config = replace(default, block_n=48, grid=grid, stages=3, row_bytes=32, early_loads=0)
    assert TEMPLATE.space(workload, HOPPER).rejection(config) is None
    assert_right_emulated(TEMPLATE, workload, config, HOPPER)


def test_only_rows_that_a_cluster_holds_are_taken() -> None:
    whole = NormalisedGemm(64, 768, 96, epilogue=REQUANTISED)
    assert TEMPLATE.matches(whole, HOPPER)
    for other in (replace(whole, n=100), replace(whole, n=4096), replace(whole, k=90)):
        assert not TEMPLATE.matches(other, HOPPER)
    assert not TEMPLATE.matches(whole, parse_target("cuda:sm_80"))
    for config in TEMPLATE.space(whole, HOPPER).sample(np.random.default_rng(0), 50):
        assert config.block_n * config.grid.cluster == 768


@pytest.mark.gpu
@pytest.mark.parametrize("workload", ON_GPU, ids=str)
def test_every_element_on_a_gpu(workload: NormalisedGemm) -> None:
    target = hopper_target()
    configs = [TEMPLATE.default(workload, HOPPER), *sampled(TEMPLATE, workload, HOPPER, 3, 8)]
    candidates = [(config, HOPPER) for config in dict.fromkeys(configs)]
    assert_right(TEMPLATE, workload, candidates, target)
