"""The kernel of single weights: its packed runs against the weight, and its outputs, emulated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.templates.composed.pruned_product import pruned_product
from autoq.templates.cuda.pruned.elements.config import ElementsConfig, ElementsTiling
from autoq.templates.cuda.pruned.elements.gemm_elements import TEMPLATE
from autoq.templates.cuda.pruned.elements.pack import pack_runs
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.sparsity import ELEMENTS, Sparsity
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
CLASS = Sparsity("ew", 1, 112, Structure(640, 7, 20), Structure(512, 32, 80))
BYTES = Gemm(70, 120, 200, sparsity=CLASS)
FLOATS = FloatGemm(70, 120, 200, weight_dtype="float16", sparsity=CLASS)
SINGLE = Gemm(70, 120, 200, "float32", "float32", Epilogue("float32"), sparsity=CLASS)
EMPTY = Sparsity("ew", 1, 0, Structure(0, 0, 0), Structure(0, 0, 0))


@pytest.mark.parametrize("workload", [BYTES, FLOATS, SINGLE], ids=str)
@pytest.mark.parametrize("chunk", [64, 256])
def test_runs_hold_the_weight(workload: Gemm | FloatGemm, chunk: int) -> None:
    view = pruned_product(workload, ELEMENTS)
    assert view is not None
    tiling = ElementsTiling(view, CLASS.structure, ElementsConfig(8, 2, 4, chunk))
    _, constants = workload.random_case(np.random.default_rng(1))
    weight = np.asarray(constants["weight"])
    starts, places, values = pack_runs(tiling, weight)
    found = np.zeros((tiling.columns * tiling.column_tiles, 512), np.float64)
    outputs = len(found)
    for run in range(tiling.runs):
        own = slice(starts[run], starts[run + 1])
        rows, rest = np.divmod(places[own].reshape(-1), tiling.row_bytes)
        assert not rest.any() and (rows < chunk).all()
        at = run // outputs * chunk + rows
        np.add.at(found[run % outputs], at, values[own].reshape(-1).astype(np.float64))
    np.testing.assert_array_equal(found[:120, :200], weight.astype(np.float64))
    assert np.count_nonzero(found) == np.count_nonzero(weight) > 500


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "config"),
    [
        (BYTES, ElementsConfig(8, 2, 4, 64)),
        (
            replace(BYTES, n=121, in_dtype="uint8", weight_dtype="uint8",
                    epilogue=Epilogue("int32")),
            ElementsConfig(4, 1, 4, 256),
        ),
        (
            replace(BYTES, n=118, k=199, in_dtype="uint8",
                    epilogue=Epilogue("uint8", "int8", True)),
            ElementsConfig(4, 4, 4, 128),
        ),
        (
            replace(BYTES, weight_dtype="uint8",
                    epilogue=Epilogue("float16", row_scale=True, float_bias=True)),
            ElementsConfig(8, 1, 8, 128),
        ),
        (replace(BYTES, epilogue=Epilogue("int8", table=True)), ElementsConfig(8, 1, 4, 64)),
        (replace(BYTES, sparsity=EMPTY), ElementsConfig(8, 2, 4, 64)),
        (replace(FLOATS, bias=True), ElementsConfig(16, 2, 4, 64)),
        (
            FloatGemm(33, 99, 75, "bfloat16", "bfloat16", "float32", activation="gelu_tanh",
                      sparsity=Sparsity("ew", 1, 80, Structure(320, 4, 10),
                                        Structure(256, 24, 40))),
            ElementsConfig(8, 2, 4, 64),
        ),
        (replace(FLOATS, k=77, residual=True, x_scale=True), ElementsConfig(8, 1, 4, 64)),
        (SINGLE, ElementsConfig(32, 4, 8, 64)),
        (
            replace(SINGLE, m=71, n=117, k=201, epilogue=Epilogue("float32", "float32")),
            ElementsConfig(8, 2, 4, 64),
        ),
    ],
    ids=["bytes", "sums", "residual", "row scales", "table", "empty", "floats", "bfloat16",
         "float residual", "float32", "float32 residual"],
)  # fmt: skip
def test_outputs_are_right(workload: Gemm | FloatGemm, config: ElementsConfig) -> None:
    assert config in TEMPLATE.space(workload, TARGET)
    assert_right_emulated(TEMPLATE, workload, config, TARGET)


def test_what_it_declines() -> None:
    for arch in ("sm_75", "sm_80", "sm_90a"):
        assert TEMPLATE.matches(BYTES, parse_target(f"cuda:{arch}"))
    assert not TEMPLATE.matches(BYTES, parse_target("cpu"))
    many = replace(CLASS, structure=Structure(12288, 112, 112))
    others = (
        BYTES.dense, FLOATS.dense, replace(BYTES, sparsity=many),
        replace(BYTES, weight_dtype="int4"), replace(BYTES, epilogue=Epilogue("int4")),
        replace(FLOATS, weight_left=True), replace(FLOATS, residual=True, activation="gelu"),
    )  # fmt: skip
    assert not any(TEMPLATE.matches(workload, TARGET) for workload in others)
    assert TEMPLATE.matches(replace(SINGLE, sparsity=many), TARGET)
