"""Products of cuBLASLt, by a library that multiplies on the host."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autoq.errors import LibraryError
from autoq.libraries import (
    batched_products,
    beside,
    byte_products,
    cublaslt,
    float_products,
    loading,
    ranking,
)
from autoq.libraries.batched_products import BatchedProducts
from autoq.libraries.beside import Beside, cublaslt_beside, description, nearest
from autoq.libraries.byte_products import ByteMatrices, ByteProducts
from autoq.libraries.float_products import FloatProducts
from autoq.measure import cuda_bench
from autoq.measure.job import Timing
from autoq.process.child import Entry
from autoq.runtime.cuda.driver import device_count
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.batched_gemm import BatchedGemm
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm

sys.path.insert(0, str(Path(__file__).parent))
from fake_cublaslt import RIGHT, FakeCublasLt, FakeDevice, FakeMemory, FakeStream


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCublasLt]:
    fake = FakeCublasLt()
    monkeypatch.setattr(cublaslt, "library", lambda: fake)
    monkeypatch.setattr(cublaslt, "WORKSPACE_BYTES", 16)
    for module in (cublaslt, batched_products, byte_products, float_products, cuda_bench):
        monkeypatch.setattr(module, "Memory", FakeMemory)
    for module in (batched_products, byte_products, float_products):
        monkeypatch.setattr(module, "Device", FakeDevice)
        monkeypatch.setattr(module, "Stream", FakeStream)

    def median(way: Any, stream: Any, timing: Timing) -> float:
        way.launch(1)
        return 5e-6

    monkeypatch.setattr(ranking, "_median", median)
    yield fake
    FakeMemory.held.clear()


FLOATS = [
    FloatGemm(72, 24, 64),
    FloatGemm(72, 24, 64, "bfloat16", "int4", "bfloat16", group=32, zero_points=True),
    FloatGemm(24, 72, 64, "float16", "uint8", weight_left=True),
    FloatGemm(72, 24, 64, "float16", "float16", "float32"),
]
NARROW = [
    FloatGemm(72, 24, 64, "float8_e4m3fn", "float8_e4m3fn", "bfloat16", x_scale=True),
    FloatGemm(24, 72, 64, "float8_e4m3fn", "float8_e4m3fn", "float32", weight_left=True),
]


@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize("workload", FLOATS, ids=str)
def test_products_of_floats(library: FakeCublasLt, workload: FloatGemm, cold: bool) -> None:
    products = FloatProducts()
    assert products.version == "13.0.1" and products.supports(workload)
    found = products.measure(workload, Timing(cold=cold))
    assert found.what == f"algorithm {RIGHT}"
    assert (found.seconds, found.tried) == (5e-6, 2)
    # What rounding to the output's type makes of it.
    rounding = {"float16": 3e-3, "bfloat16": 2.4e-2, "float32": 1e-4}[workload.out_dtype]
    assert rounding / 100 * (workload.out_dtype != "float32") <= found.max_error <= rounding
    assert library.products


@pytest.mark.parametrize("workload", NARROW, ids=str)
def test_products_of_float8(library: FakeCublasLt, workload: FloatGemm) -> None:
    products = FloatProducts()
    assert products.supports(workload)
    found = products.measure(workload, Timing())
    assert found.tried == 8 and len(found.others) == 3 and library.fast_sums == {False, True}
    assert found.max_error <= {"bfloat16": 2.4e-2, "float32": 1e-4}[workload.out_dtype]


@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize("out", ["int8", "int32"])
def test_products_of_bytes(library: FakeCublasLt, out: str, cold: bool) -> None:
    workload = Gemm(72, 24, 64, epilogue=Epilogue(out))
    products = ByteProducts()
    assert products.supports(workload)
    found = products.measure(workload, Timing(cold=cold))
    scaling = "" if out == "int32" else ", one scale"
    assert found.what == f"algorithm {RIGHT}{scaling}"
    assert found.tried == (2 if out == "int32" else 4)
    assert found.max_error <= 1


BATCHES = [
    BatchedGemm(2, 7, 20, 24, 3, "float16", "float16", epilogue=Epilogue("float32")),
    BatchedGemm(2, 7, 20, 23, 3, "bfloat16", "bfloat16", "bmhk", "bkhn", "bmhn",
                Epilogue("bfloat16")),
    BatchedGemm(2, 7, 20, 23, 3, "uint8", "int8", "bmhk", "bkhn", "bmhn"),
    BatchedGemm(1, 7, 19, 16, 3, epilogue=Epilogue("float32")),
]  # fmt: skip


@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize("workload", BATCHES, ids=str)
def test_batches(library: FakeCublasLt, workload: BatchedGemm, cold: bool) -> None:
    products = BatchedProducts()
    assert products.supports(workload)
    found = products.measure(workload, Timing(cold=cold))
    forms = 2 if workload.epilogue.out_dtype == "int8" else 1
    assert f"algorithm {RIGHT}" in found.what and found.tried == 2 * forms
    assert set(found.others) == ({"int32"} if forms == 2 else set())
    assert found.max_error <= {"float16": 1e-4, "bfloat16": 2.4e-2}.get(workload.in_dtype, 1)


@pytest.mark.parametrize("residual", [False, True])
def test_given_matrices(library: FakeCublasLt, residual: bool) -> None:
    rng = np.random.default_rng(0)
    x, weight, added = (rng.integers(-9, 9, shape, np.int8) for shape in ((8, 16), (4, 16), (8, 4)))
    scale = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    checked = []

    def check(y: np.ndarray, per_channel: bool) -> int:
        checked.append(per_channel)
        sums = x.astype(np.int64) @ weight.T
        expected = sums * (scale if per_channel else np.float32(0.25)) + (added if residual else 0)
        return int(np.abs(y.reshape(8, 4) - np.clip(np.rint(expected), -128, 127)).max())

    matrices = ByteMatrices(x, weight, scale, 0.25, added if residual else None)
    assert ByteProducts().fastest(matrices, check, Timing()).max_error <= 1
    assert set(checked) == {False, True}


def test_a_product_without_an_algorithm(library: FakeCublasLt) -> None:
    with pytest.raises(LibraryError, match="no way"):
        FloatProducts().measure(FloatGemm(8, 8, 30), Timing())
    with pytest.raises(LibraryError, match="no way"):
        ByteProducts().measure(Gemm(8, 8, 30), Timing())


def test_what_the_process_replies(library: FakeCublasLt) -> None:
    measure = beside.serve(0)
    found = measure((FloatGemm(8, 16, 32, bias=True), Timing()))
    assert isinstance(found, Beside) and found.version == "13.0.1"
    assert found.computed.startswith("f16 x f16 -> f16, the weight dequantised")
    found = measure((Gemm(8, 16, 32, "uint4", "int4", Epilogue("float32")), Timing()))
    assert isinstance(found, Beside) and found.computed.startswith("s8 x s8 -> s32, the nearest")
    refused = measure((Gemm(8, 16, 30), Timing()))
    assert refused == "no way to compute it was found"


NEAREST = {
    FloatGemm(8, 16, 32, "float16", "float16"): "f16 x f16 -> f16",
    FloatGemm(8, 16, 32, "bfloat16", "int8", "bfloat16", activation="relu", bias=True): (
        "bf16 x bf16 -> bf16, the weight dequantised beforehand, without bias and relu"
    ),
    FloatGemm(8, 16, 32, out_dtype="bfloat16"): (
        "f16 x f16 -> f16, the weight dequantised beforehand"
    ),
    FloatGemm(8, 16, 32, "bfloat16", x_scale=True, bias=True): (
        "bf16 x bf16 -> bf16, the weight dequantised beforehand, without scales of rows and bias"
    ),
    FloatGemm(8, 16, 32, out_dtype="float32", activation="silu"): (
        "f16 x f16 -> f32, the weight dequantised beforehand, without silu"
    ),
    Gemm(8, 16, 32): "s8 x s8 -> s8",
    Gemm(8, 16, 32, epilogue=Epilogue("int32")): "s8 x s8 -> s32",
    Gemm(8, 16, 32, "uint8"): "s8 x s8 -> s8, the nearest types that it has",
    FloatGemm(8, 16, 64, "float8_e4m3fn", "float8_e4m3fn", x_scale=True, residual=True, batch=3): (
        "e4m3 x e4m3 -> f16, one of the batch, without residual"
    ),
    Gemm(8, 16, 32, epilogue=Epilogue("uint4")): "s8 x s8 -> s8, the nearest types that it has",
}


@pytest.mark.parametrize("product", NEAREST, ids=str)
def test_what_is_computed_in_its_place(product: Gemm | FloatGemm) -> None:
    assert description(product) == NEAREST[product]
    kind = FloatProducts if isinstance(product, FloatGemm) else ByteProducts
    assert kind.supports(object.__new__(kind), nearest(product))


def test_a_library_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_package_folders", list)
    with pytest.raises(LibraryError, match="libnone was not found"):
        loading.load("libnone")


def test_a_process_that_dies_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    dead = Entry("fake_cublaslt", "serve_death", 0)
    monkeypatch.setattr(beside, "Entry", lambda *given: dead)
    assert "died of SIGSEGV" in str(cublaslt_beside(Gemm(8, 16, 32), Timing()))


@pytest.mark.skipif(device_count() > 0, reason="there is a CUDA GPU")
def test_a_process_without_a_gpu_says_so() -> None:
    assert "no CUDA GPU" in str(cublaslt_beside(Gemm(8, 16, 32), Timing()))
