"""One operator as a function over arrays."""

from __future__ import annotations

import numpy as np
import pytest
import tvm_ffi
from gpu_kernels import end_if_compile_only

import autoq
from autoq.errors import InputError
from autoq.measure.arrays import random_case, stored_activations, stored_outputs
from autoq.measure.check import complaints
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.add import Add
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import host_cpu, parse_target
from autoq.templates.workload import Workload

GEMM = Gemm(5, 24, 32)
WORKLOADS = [
    GEMM,
    Conv2d(2, 9, 9, 16, 24, 3, 3, padding=(1, 1, 1, 1), epilogue=Epilogue("uint8", "int8", True)),
    Gemm(3, 10, 64, epilogue=Epilogue("int32")),
    Add((2, 3, 5), "uint8", "int8", "int8"),
]


@pytest.mark.parametrize("workload", WORKLOADS, ids=str)
def test_it_computes_the_reference_over_numpy_and_dlpack(workload: Workload) -> None:
    activations, constants = random_case(workload, 4)
    expected = workload.reference(activations, constants)
    compute = autoq.operator(workload, target="cpu", constants=constants)
    for given in (activations, [tvm_ffi.from_dlpack(array) for array in activations]):
        y = compute(*given)
        assert isinstance(y, np.ndarray)
        assert complaints([y], expected, workload, host_cpu()) is None
    assert compute.workload is workload and compute.source in ("default", "fixed")


def test_inputs_need_be_neither_aligned_nor_dense_and_outputs_are_new() -> None:
    (x,), constants = random_case(GEMM, 4)
    (expected,) = GEMM.reference((x,), constants)
    gemm = autoq.operator(GEMM, target="cpu", constants=constants)
    shifted = np.zeros(x.size + 1, np.int8)[1:].reshape(x.shape)
    shifted[...] = x
    locked = x.copy()
    locked.flags.writeable = False
    first = gemm(x)
    for given in (shifted, np.asfortranarray(x), locked, np.repeat(x, 2, axis=1)[:, ::2]):
        np.testing.assert_array_equal(gemm(given), expected)
    gemm(np.zeros_like(x))
    np.testing.assert_array_equal(first, expected)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ((), "takes x; 0 arrays given"),
        ((np.zeros((5, 32), np.uint8),), r"'x': expected int8 \[5, 32\], found uint8 \[5, 32\]"),
        ((np.zeros((5, 31), np.int8),), r"found int8 \[5, 31\]"),
        (([1, 2],), "expected a numpy or DLPack array, found list"),
        ((tvm_ffi.from_dlpack(np.zeros((32, 5), np.int8).T),), "'x': strided"),
    ],
    ids=["none", "dtype", "shape", "list", "strided"],
)
def test_activations_that_do_not_fit_are_one_line(given: tuple, complaint: str) -> None:
    gemm = autoq.operator(GEMM, target="cpu", constants=random_case(GEMM, 4)[1])
    with pytest.raises(InputError, match=complaint):
        gemm(*given)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"weight": None}, "constant 'weight' is missing"),
        ({"weight": np.zeros((24, 31), np.int8)}, r"'weight' is int8\[24, 31\]; expected int8\[24"),
        ({"bias": np.zeros(24, np.int64)}, r"'bias' is int64\[24\]; expected int32\[24\]"),
        ({"gamma": np.zeros(24)}, "no constant 'gamma'; it takes weight, bias"),
    ],
    ids=["missing", "shape", "dtype", "unknown"],
)
def test_constants_that_do_not_fit_are_one_line(change: dict, complaint: str) -> None:
    constants = {**random_case(GEMM, 4)[1], **change}
    constants = {name: value for name, value in constants.items() if value is not None}
    with pytest.raises(InputError, match=complaint):
        autoq.operator(GEMM, target="cpu", constants=constants)


def test_what_is_no_workload_is_refused() -> None:
    with pytest.raises(InputError, match="expected a Workload, found str"):
        autoq.operator("gemm", target="cpu")


def test_constants_may_be_left_out_where_they_are_optional() -> None:
    (x,), constants = random_case(GEMM, 4)
    del constants["x_zero_point"]
    gemm = autoq.operator(GEMM, target="cpu", constants=constants)
    np.testing.assert_array_equal(gemm(x), GEMM.reference((x,), constants)[0])


@pytest.mark.gpu
@pytest.mark.parametrize(
    "workload",
    [*WORKLOADS, Conv2d(2, 9, 9, 64, 32, 1, 1, in_dtype="uint4", weight_dtype="int4")],
    ids=str,
)
def test_on_a_gpu_arrays_stay_where_they_are(workload: Workload) -> None:
    import tvm.runtime

    end_if_compile_only()

    values, constants = random_case(workload, 4)
    expected = stored_outputs(workload, workload.reference(values, constants))
    activations = stored_activations(workload, values)
    compute = autoq.operator(workload, target="cuda", constants=constants)
    target, gpu = parse_target("cuda"), tvm.runtime.device("cuda", 0)
    y = compute(*activations)
    assert isinstance(y, np.ndarray) and complaints([y], expected, workload, target) is None
    tensors = [tvm.runtime.tensor(array, gpu) for array in activations]
    for _ in range(3):
        y = compute(*tensors)
        assert y.device.type == "cuda"
        assert complaints([y.numpy()], expected, workload, target) is None
