"""gemm_swapped: right on the emulator, compiled without spills, and for products of few rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gpu_kernels import assert_right, hopper_target, sampled
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.kernel import compile_kernel
from autoq.measure.arrays import random_case
from autoq.templates.cuda.halo.swapped.gemm_swapped import TEMPLATE
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.gemm import Gemm
from autoq.templates.registry import matching
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
CASES = [
    Gemm(1, 80, 64),
    Gemm(16, 144, 208, "uint8", epilogue=Epilogue("uint8")),
    Gemm(37, 64, 160, epilogue=Epilogue("uint8", table=True)),
    Gemm(200, 96, 96, "uint8"),
]
DIRECT = [
    Gemm(5, 80, 64, epilogue=Epilogue("int32")),
    Gemm(37, 64, 160, epilogue=Epilogue("int8", "int8", True)),
    Gemm(21, 144, 208, "uint8", epilogue=Epilogue("uint8", "float32", row_scale=True)),
    Gemm(40, 16, 96, epilogue=Epilogue("float16", "float16", row_scale=True, float_bias=True,
                                       activation="gelu")),
    Gemm(50, 80, 128, "uint8", epilogue=Epilogue("float32", "uint8", float_bias=True)),
    Gemm(17, 80, 64, epilogue=Epilogue("uint8", "uint8", True, table=True)),
]  # fmt: skip
"""Outputs that threads store themselves."""
RICH = Epilogue("bfloat16", "bfloat16", row_scale=True, float_bias=True, activation="gelu")


@needs_nvcc
@pytest.mark.parametrize("workload", CASES, ids=str)
def test_every_element_is_exact(workload: Gemm) -> None:
    config = TEMPLATE.default(workload, TARGET)
    assert_right_emulated(TEMPLATE, workload, config, TARGET)
    (sample,) = TEMPLATE.space(workload, TARGET).sample(np.random.default_rng(workload.m), 1)
    assert_right_emulated(TEMPLATE, workload, sample, TARGET, ["late"])


@needs_nvcc
@pytest.mark.parametrize("workload", DIRECT, ids=lambda w: f"{w} {w.epilogue.out_dtype}")
def test_every_element_of_any_output_is_right(workload: Gemm) -> None:
    assert TEMPLATE.matches(workload, TARGET)
    case = random_case(workload, 7)
    if workload.epilogue.activation == "gelu":
        case[1]["float_bias"][0] = np.inf  # GELU leaves it infinite
    assert_right_emulated(TEMPLATE, workload, TEMPLATE.default(workload, TARGET), TARGET, case=case)


@needs_nvcc
@pytest.mark.parametrize(
    "rows, epilogue",
    [(1, Epilogue()), (16, Epilogue()), (256, Epilogue()), (1, RICH), (256, RICH),
     (256, Epilogue("int32"))],
    ids=str,
)  # fmt: skip
def test_defaults_compile_without_spills(rows: int, epilogue: Epilogue) -> None:
    workload = Gemm(rows, 4096, 4096, epilogue=epilogue)
    config = TEMPLATE.default(workload, TARGET)
    assert compile_kernel(TEMPLATE.build(workload, config, TARGET), TARGET).spill_bytes == 0


@pytest.mark.gpu
@pytest.mark.parametrize("workload", [*CASES, *DIRECT], ids=str)
def test_every_element_is_exact_on_gpu(workload: Gemm) -> None:
    configs = [TEMPLATE.default(workload, TARGET), *sampled(TEMPLATE, workload, TARGET, 5, 3)]
    assert_right(TEMPLATE, workload, [(c, TARGET) for c in configs], hopper_target())


def test_tiles_hold_all_rows_and_waste_no_second_tile() -> None:
    widths = {c.tile.width for c in TEMPLATE.space(CASES[2], TARGET).enumerate()}
    assert widths == {16, 32, 48}


@pytest.mark.parametrize(
    "change",
    [{"m": 257}, {"n": 24}, {"k": 16}, {"k": 72}, {"epilogue": Epilogue("int4")},
     {"epilogue": Epilogue("float16", "uint4")}, {"epilogue": Epilogue("float16", scale_group=32)},
     {"in_dtype": "int4", "weight_dtype": "int4"}],
    ids=str,
)  # fmt: skip
def test_what_it_leaves_to_others(change: dict[str, object]) -> None:
    workload = Gemm(16, 64, 128)
    assert TEMPLATE.matches(workload, TARGET)
    assert not TEMPLATE.matches(replace(workload, **change), TARGET)
    assert not TEMPLATE.matches(workload, parse_target("cuda:sm_89"))


def test_it_is_tried_beside_the_usual_one() -> None:
    names = [template.name for template in matching(Gemm(16, 64, 128), TARGET)]
    assert names[:2] == ["gemm_wgmma", "gemm_swapped"]
