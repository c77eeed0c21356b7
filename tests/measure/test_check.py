"""The element-by-element check and the threaded reference."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest
from ml_dtypes import finfo

from autoq.measure.arrays import random_case, same_bytes
from autoq.measure.check import Expected, complaint, complaints
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.add import Add
from autoq.templates.operators.attention import Attention
from autoq.templates.operators.concat import Concat
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.dequantize import Dequantize
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.lookup import Lookup
from autoq.templates.operators.pool2d import Pool2d
from autoq.templates.operators.quantize import Quantize
from autoq.templates.operators.relayout import Relayout
from autoq.templates.oracle.random_arrays import random_inputs
from autoq.templates.oracle.reference import reference
from autoq.templates.target import Target
from autoq.templates.workload import Workload

CUDA, CPU = Target("cuda", "sm_90a"), Target("cpu", "generic")
PLAIN = Gemm(4, 8, 16)
RESIDUAL = Gemm(4, 8, 16, epilogue=Epilogue("int8", "int8"))
FLOAT = Gemm(4, 8, 16, "float32", "float32", Epilogue("float32"))


def test_arrays_are_the_same_where_every_byte_is():
    x = np.zeros((3, 4), np.float32)
    assert same_bytes(x, x.copy()) and same_bytes(x[:0], x[:0])
    assert not same_bytes(x, -x)  # Equal as numbers.
    assert not same_bytes(x, x[:2]) and not same_bytes(x, _changed(x, (2, 3), 1))
    with pytest.raises(ValueError, match="no run of bytes"):
        same_bytes(x.T, x.T)


def _changed(y, at, by):
    y = y.copy()
    y[at] += by
    return y


@pytest.mark.parametrize(
    ("workload", "target", "by", "right"),
    [
        (PLAIN, CUDA, 0, True),
        (PLAIN, CUDA, 1, False),
        (PLAIN, CPU, 1, False),
        (RESIDUAL, CUDA, 1, False),
        (RESIDUAL, CPU, 1, True),
        (RESIDUAL, CPU, 2, False),
    ],
)
def test_integer_steps_that_are_allowed(workload, target, by, right):
    expected = np.arange(32, dtype=np.int8).reshape(4, 8)
    found = complaint(_changed(expected, (2, 3), by), expected, workload, target)
    assert (found is None) == right
    if not right:
        assert found == f"1 of 32 elements wrong; first at [2, 3]: {19 + by} instead of 19"


@pytest.mark.parametrize("workload", [PLAIN, RESIDUAL, FLOAT])
def test_a_large_output_is_judged_in_parts_by_threads(workload):
    rng, dtype = np.random.default_rng(0), workload.outputs[0].dtype
    expected = rng.integers(-100, 100, (3, 1 << 17)).astype(dtype)
    threaded = Expected([expected], workload, CPU, ThreadPoolExecutor(2).map)
    assert threaded.complaint([expected]) is None
    for at in ((0, 0), (1, 5), (2, (1 << 17) - 1)):
        wrong = _changed(expected, at, 5)
        found = threaded.complaint([wrong])
        assert found == complaint(wrong, expected, workload, CPU)
        assert found is not None and found.startswith("1 of 393216 ") and f"{list(at)}" in found


def test_a_wrapped_integer_is_not_one_step_off():
    expected = np.full((4, 8), 127, np.int8)
    wrapped = np.full((4, 8), -128, np.int8)
    assert complaint(wrapped, expected, RESIDUAL, CPU).startswith("32 of 32")


@pytest.mark.parametrize(
    ("value", "right"),
    [(100.0, True), (100.009, True), (100.03, False), (np.nan, False), (np.inf, False)],
)
def test_floats_are_compared_relatively(value, right):
    expected = np.full((4, 8), 100.0, np.float32)
    y = expected.copy()
    y[3, 7] = value
    assert (complaint(y, expected, FLOAT, CUDA) is None) == right


def test_rows_of_other_sizes_have_their_own_share():
    """Of causal attention the first rows, of few keys, are the large ones."""
    workload = Attention(1, 1, 200, 200, 16, out_dtype="float32", causal=True)
    expected = np.full((1, 1, 200, 16), 0.01, np.float32)
    expected[0, 0, 0] = 1
    expected[..., 5] = 0
    assert complaint(_changed(expected, (0, 0, 0, 5), 1e-3), expected, workload, CUDA) is None
    assert complaint(_changed(expected, (0, 0, 9, 5), 1e-3), expected, workload, CUDA)


def test_the_output_that_is_wrong_is_named():
    @dataclass(frozen=True)
    class Halves(Workload):
        inputs: tuple = ()
        outputs: tuple = (TensorSpec("low", (4,), "int8"), TensorSpec("high", (2, 2), "float32"))
        operations: int = 0

        def reference(self, activations, constants):
            return np.arange(4, dtype=np.int8), np.ones((2, 2), np.float32)

        def random_case(self, rng):
            return (), {}

    expected = Halves().reference_in_threads((), {}, 2)
    assert complaints(expected, expected, Halves(), CUDA) is None
    wrong = (expected[0], _changed(expected[1], (1, 0), 0.5))
    found = complaints(wrong, expected, Halves(), CUDA)
    assert found == "high: 1 of 4 elements wrong; first at [1, 0]: 1.5 instead of 1.0"
    assert complaints(wrong[:1], expected[:1], PLAIN, CUDA) is None


def test_equal_infinities_are_right():
    expected = np.array([[np.inf, 1.0]], np.float32)
    assert complaint(expected.copy(), expected, FLOAT, CUDA) is None


def test_an_output_of_another_float_type_is_no_output():
    expected = np.ones((4, 8), np.float32)
    with pytest.raises(TypeError, match="an output of float16 beside"):
        complaint(expected.astype(np.float16), expected, FLOAT, CUDA)


WORKLOADS = [
    Conv2d(5, 20, 20, 32, 48, 3, 3, (2, 2), (1, 1, 1, 1), zero_point_border=True),
    Conv2d(3, 9, 9, 16, 16, 3, 3, (1, 1), (1, 1, 1, 1), groups=16, in_dtype="uint8"),
    Conv2d(2, 8, 8, 8, 8, 1, 1, epilogue=Epilogue("int8", "uint8", True)),
    Conv2d(2, 8, 8, 8, 8, 3, 3, in_dtype="float32", weight_dtype="float32",
           epilogue=Epilogue("float32", "float32")),
    Conv2d(8, 6, 6, 32, 16, 3, 3, epilogue=Epilogue("int8", "uint8"), in_layout="NHWCnc",
           out_layout="NHWCnc"),
    Gemm(7, 30, 64, epilogue=Epilogue("int32")),
    Pool2d("max", 2, 8, 8, 4, 3, 3, (2, 2), (1, 1, 1, 1)),
    Pool2d("average", 2, 7, 7, 8, 7, 7),
    Add((2, 3, 4, 5), "uint8", "int8", "int8"),
    Concat(6, (3, 4), ("int8", "int8"), (True, False)),
    Quantize(1, 8, 8, 3, 16, block=2),
    Dequantize(1, 4, 4, 8),
    Lookup((1, 4, 4, 8), "uint8"),
    Relayout(8, 3, 3, 16, "NHWC", "NHWCnc"),
]  # fmt: skip


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: f"{type(w).__name__} {w}")
def test_random_cases_exercise_the_workload(workload):
    activations, constants = random_case(workload, 1)
    again, _ = random_case(workload, 1)
    other, _ = random_case(workload, 2)
    y = reference(workload, activations, constants)
    assert y.shape == workload.y_shape and y.flags.c_contiguous
    assert all(np.array_equal(a, b) for a, b in zip(activations, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(activations, other, strict=True))
    values, counts = np.unique(y, return_counts=True)
    assert len(values) > min(20, y.size / 2) and counts.max() < y.size / 2, "outputs hardly vary"


@dataclass(frozen=True)
class Copied(Workload):
    """A copy of one row of a float."""

    dtype: str

    @property
    def inputs(self):
        return (TensorSpec("x", (4,), self.dtype),)

    outputs = inputs
    operations = 4

    def reference(self, activations, constants):
        return activations

    def random_case(self, rng):
        return random_inputs(rng, self.inputs), {}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn"])
def test_narrow_floats_may_be_rounded_to_a_neighbour(dtype):
    workload = Copied(dtype)
    spacing = float(finfo(dtype).eps)
    expected = np.array([1.0, 1.5, -2.0, 0.0]).astype(workload.inputs[0].element.dtype)
    near = (expected.astype(np.float64) * (1 + spacing / 2)).astype(expected.dtype)
    far = expected.copy()
    far[1] += expected.dtype.type(2 * spacing)
    assert complaint(near, expected, workload, CUDA) is None
    assert "1 of 4 elements wrong; first at [1]" in str(complaint(far, expected, workload, CUDA))
    wrong = expected.copy()
    wrong[3] = np.nan
    assert "first at [3]: nan" in str(complaint(wrong, expected, workload, CUDA))
