"""Whole models on a GPU: compiled, run from host and device arrays, against onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm.runtime
import tvm_ffi
from gpu_kernels import OPTIONS, end_if_compile_only, gpu_host
from onnx_models.networks import four_bit_resnet_path, light_path, resnet_path
from onnx_models.oracle import output_step, random_feeds, run_onnxruntime

from autoq import Session, compile
from autoq.errors import InputError

pytestmark = pytest.mark.gpu

FLOAT_TOLERANCE = 1e-4
STEPS = 1.001
MODELS = {
    "resnet18-QDQ": lambda: resnet_path(18, "QDQ", 128),
    "resnet18-QOperator-int8": lambda: resnet_path(18, "QOperator", 128, activation="int8"),
    "resnet18-4-bit": lambda: four_bit_resnet_path(18, 128),
    "resnet18-4-bit-int8": lambda: four_bit_resnet_path(18, 128, activation="int8"),
    "shufflenet-QDQ": lambda: light_path("shufflenet", "QDQ", logits=True),
    "squeezenet-QOperator": lambda: light_path("squeezenet", "QOperator", logits=True),
    "inception_v1-QDQ": lambda: light_path("inception_v1", "QDQ", logits=True),
    "squeezenet-float32": lambda: light_path("squeezenet", "float32", logits=True),
}


@pytest.fixture(scope="module")
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return OPTIONS.folder or tmp_path_factory.mktemp("kernels")


@pytest.mark.parametrize("name", MODELS)
def test_compiled_model_agrees(name: str, tmp_path: Path, kernel_cache: Path) -> None:
    path = MODELS[name]()
    report = compile(path, target=gpu_host(), output=tmp_path / "model.tar", cache_dir=kernel_cache)
    end_if_compile_only()
    assert bool(report.packed) == ("4-bit" in name)
    session = Session(tmp_path / "model.tar")
    feeds = random_feeds(path)
    (expected,) = run_onnxruntime(path, feeds).values()
    (got,) = session.run(None, feeds)
    allowed = FLOAT_TOLERANCE * np.abs(expected).max()
    if "float32" not in name:
        ((_, step),) = output_step(path).items()
        allowed = STEPS * step
    np.testing.assert_array_less(np.abs(got - expected), allowed + 1e-12)
    (again,) = session.run(None, feeds)
    np.testing.assert_array_equal(again, got)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, kernel_cache: Path) -> Session:
    path = tmp_path_factory.mktemp("artifact") / "model.tar"
    compile(resnet_path(18, "QDQ", 64), target=gpu_host(), output=path, cache_dir=kernel_cache)
    end_if_compile_only()
    return Session(path)


def test_feeds_on_the_device_give_outputs_on_the_device(session: Session) -> None:
    x = np.random.default_rng(0).standard_normal((1, 3, 64, 64), np.float32)
    (expected,) = session.run(None, {"input": x})
    on_device = tvm.runtime.tensor(x, tvm.runtime.device("cuda", 0))
    (y,) = session.run(None, {"input": on_device})
    assert tvm_ffi.from_dlpack(y).device.type == "cuda"
    np.testing.assert_array_equal(y.numpy(), expected)


def test_the_sessions_own_buffer_is_not_copied(session: Session) -> None:
    x = np.random.default_rng(1).standard_normal((1, 3, 64, 64), np.float32)
    (expected,) = session.run(None, {"input": x})
    expected = expected.copy()
    session.run(None, {"input": np.zeros_like(x)})
    buffer = session.buffer("input")
    buffer.copyfrom(x)
    (y,) = session.run(None, {"input": buffer})
    np.testing.assert_array_equal(y.numpy(), expected)


def test_feeds_are_read_where_they_lie(session: Session) -> None:
    device = tvm.runtime.device("cuda", 0)
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal((1, 3, 64, 64), np.float32) for _ in range(2)]
    expected = [session.run(None, {"input": array})[0] for array in arrays]
    room = tvm.runtime.empty((arrays[0].size + 1,), "float32", device)
    misaligned = room._create_view(arrays[0].shape, "float32", 4)
    aligned = tvm.runtime.tensor(arrays[0], device)
    for feed in (aligned, misaligned, aligned, session.buffer("input")):
        for array, want in zip(arrays, expected, strict=True):
            feed.copyfrom(array)
            (y,) = session.run(None, {"input": feed})
            np.testing.assert_array_equal(y.numpy(), want)
    assert session.run_seconds(3) > 0
    (y,) = session.run(None, {"input": arrays[0]})
    np.testing.assert_array_equal(y, expected[0])


def test_wrong_feeds_are_refused(session: Session) -> None:
    device = tvm.runtime.device("cuda", 0)
    wrong_shape = tvm.runtime.empty((2, 3, 64, 64), "float32", device)
    wrong_dtype = tvm.runtime.empty((1, 3, 64, 64), "int32", device)
    for array in (wrong_shape, wrong_dtype, [1, 2]):
        with pytest.raises(InputError, match="input 'input'"):
            session.run(None, {"input": array})


def test_profile_names_every_layer(session: Session) -> None:
    layers = session.profile(repeat=3)
    assert [layer.call for layer in layers] == list(session.plan.calls)
    assert all(0 < layer.seconds < 1e-3 for layer in layers)
    assert session.run_seconds(3) > 0
