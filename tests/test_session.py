"""Session on the CPU: feeds and outputs, what it refuses, profile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm_ffi
from onnx import TensorProto, helper
from onnx_models.makers import model, node, normal
from qdq.random_graphs import random_model
from sound_artifact import rewrite_manifest

from autoq import Session, compile
from autoq.errors import ArtifactError, InputError
from autoq.quantization.quantize import quantize

SHAPE = (1, 3, 32, 32)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small network of bytes: a convolution, a pool and a product behind a quantised input."""
    folder = tmp_path_factory.mktemp("artifact")
    nodes = [
        node("Conv", "input a", "p", strides=[2, 2]), node("Relu", "p", "q"),
        node("GlobalAveragePool", "q", "s"), node("Flatten", "s", "t"),
        node("MatMul", "t b", "output"),
    ]  # fmt: skip
    weights = {"a": normal(16, 3, 3, 3), "b": normal(16, 1000)}
    onnx.save(model(nodes, {"input": (SHAPE, "float32")}, weights, ["output"]), folder / "m.onnx")
    quantize(folder / "m.onnx", None, folder / "m.int8.onnx")
    compile(folder / "m.int8.onnx", target="cpu", output=folder / "model.tar")
    return folder / "model.tar"


@pytest.fixture(scope="module")
def session(artifact: Path) -> Session:
    return Session(artifact)


def image(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(SHAPE, np.float32)


def test_inputs_and_outputs_are_described(session: Session) -> None:
    assert [(i.name, i.shape, i.dtype) for i in session.get_inputs()] == [
        ("input", SHAPE, "float32")
    ]
    assert [(o.name, o.shape) for o in session.get_outputs()] == [("output", (1, 1000))]


def test_runs_do_not_share_outputs(session: Session) -> None:
    (first,) = session.run(None, {"input": image(0)})
    kept = first.copy()
    (second,) = session.run(["output"], {"input": image(1)})
    assert (first != second).any()
    np.testing.assert_array_equal(first, kept)
    (again,) = session.run(None, {"input": image(0)})
    np.testing.assert_array_equal(again, kept)


def test_dlpack_and_strided_numpy_feeds(session: Session) -> None:
    (expected,) = session.run(None, {"input": image()})
    (got,) = session.run(None, {"input": tvm_ffi.from_dlpack(image())})
    np.testing.assert_array_equal(got, expected)
    strided = np.repeat(image(), 2, axis=3)[..., ::2]
    assert not strided.flags.c_contiguous
    (got,) = session.run(None, {"input": strided})
    np.testing.assert_array_equal(got, expected)


def test_own_buffer_is_fed_in_place(session: Session) -> None:
    (expected,) = session.run(None, {"input": image(3)})
    buffer = session.buffer("input")
    buffer[:] = image(3)
    (got,) = session.run(None, {"input": buffer})
    np.testing.assert_array_equal(got, expected)


class Foreign:
    """An array of another library, whose `__dlpack__` does what it is given."""

    def __init__(self, dlpack: Callable[[], object]) -> None:
        self._dlpack = dlpack

    def __dlpack__(self, **options: object) -> object:
        return self._dlpack()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def fail() -> None:
    raise OSError("the device\nis gone")


RECORD = np.zeros(SHAPE, [("a", "f4")])
REFUSED: list[tuple[Any, str]] = [
    ({}, "inputs missing: \\['input'\\]"),
    ({"input": image(), "more": image()}, "unknown: \\['more'\\]"),
    ({"input": image(), 3: image()}, "unknown: \\[3\\]"),
    ([image()], "feeds: expected a mapping of names, found list"),
    (None, "feeds: expected a mapping of names, found NoneType"),
    ({"input": image()[:, :2]}, "expected float32 .*found float32 \\[1, 2, 32, 32\\]"),
    ({"input": image().astype(np.float64)}, "found float64"),
    ({"input": image().astype(">f4")}, "found >f4"),
    ({"input": image().astype(object)}, "found object"),
    ({"input": image().astype("M8[s]")}, "found datetime64"),
    ({"input": RECORD}, "found \\[\\('a'"),
    ({"input": image()[:0]}, "\\[0, 3, 32, 32\\]"),
    ({"input": np.float32(1)}, "found float32"),
    ({"input": np.zeros([1] * 60, np.float32)}, "found float32"),
    ({"input": [1.0]}, "found list"),
    ({"input": None}, "found NoneType"),
    ({"input": Foreign(fail)}, "Foreign failed with OSError: the device is gone"),
    ({"input": Foreign(lambda: 5)}, "Foreign failed with"),
    ({"input": Foreign(lambda: image().astype(">f4").__dlpack__())}, "failed with BufferError"),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_wrong_feeds_are_refused(session: Session, case: int) -> None:
    feeds, words = REFUSED[case]
    with pytest.raises(InputError, match=words) as refused:
        session.run(None, feeds)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("device", ["0", None, 0.0, True])
def test_devices_are_numbers(session: Session, device: object) -> None:
    with pytest.raises(InputError, match="device: expected the number of a GPU"):
        Session(session._path, device=device)


def frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def unaligned(array: np.ndarray) -> np.ndarray:
    data = bytearray(array.nbytes + 1)
    data[1:] = array.tobytes()
    return np.frombuffer(data, array.dtype, offset=1).reshape(array.shape)


FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "read-only": frozen,
    "unaligned": unaligned,
    "in Fortran's order": np.asfortranarray,
    "backwards": lambda array: array[..., ::-1].copy()[..., ::-1],
    "masked": np.ma.array,
    "of another library": lambda array: Foreign(array.__dlpack__),
}


@pytest.mark.parametrize("form", FORMS)
def test_an_array_is_read_in_any_form(session: Session, form: str) -> None:
    (expected,) = session.run(None, {"input": image(5)})
    (got,) = session.run(None, {"input": FORMS[form](image(5))})
    np.testing.assert_array_equal(got, expected)


def test_inputs_may_be_fed_each_others_buffers(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Sub", ["a", "b"], ["y"])], "difference",
        [value(name, TensorProto.FLOAT, (1, 8)) for name in "ab"],
        [value("y", TensorProto.FLOAT, (1, 8))],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    compile(tmp_path / "m.onnx", target="cpu", output=tmp_path / "m.tar")
    session = Session(tmp_path / "m.tar")
    a, b = session.buffer("a"), session.buffer("b")
    a[:], b[:] = 5, 2
    (y,) = session.run(None, {"a": b, "b": a})
    assert (y == -3).all()


def test_a_tensor_of_another_device_is_refused(session: Session, monkeypatch) -> None:
    monkeypatch.setattr(type(session._executor), "readable_devices", {"cuda": 0})
    with pytest.raises(InputError, match="'input': lies on cpu:0"):
        session.run(None, {"input": tvm_ffi.from_dlpack(image())})


def test_an_output_asked_for_twice_comes_twice(session: Session) -> None:
    one, two = session.run(["output", "output"], {"input": image(1)})
    np.testing.assert_array_equal(one, two)
    assert one is not two and session.run([], {"input": image(1)}) == []


@pytest.mark.parametrize("names", ["output", 3, [["output"]], [None], {"output": 1}.items()])
def test_outputs_that_are_no_names_are_refused(session: Session, names: Any) -> None:
    with pytest.raises(InputError, match="output"):
        session.run(names, {"input": image()})


@pytest.mark.parametrize("repeat", [0, -1, 1.5, "3", None, float("nan")])
def test_a_repeat_that_is_no_count_is_refused(session: Session, repeat: Any) -> None:
    for time in (session.profile, session.run_seconds):
        with pytest.raises(InputError, match=r"repeat: expected a whole number from 1, found"):
            time(repeat)
    assert session.run_seconds(np.int64(1)) > 0


def test_unknown_outputs_and_buffers_are_refused(session: Session) -> None:
    with pytest.raises(InputError, match="no output 'logits'"):
        session.run(["logits"], {"input": image()})
    for name in ("logits", None, ["input"]):
        with pytest.raises(InputError, match="no input or output"):
            session.buffer(name)


def test_profile_covers_every_call(session: Session) -> None:
    layers = session.profile(repeat=2)
    assert [layer.call for layer in layers] == list(session.plan.calls)
    assert all(layer.seconds > 0 for layer in layers)


def test_artifact_of_a_cpu_with_more_features_is_refused(artifact: Path, monkeypatch) -> None:
    monkeypatch.setattr("autoq.runtime.cpu.features.host_features", lambda: frozenset({"sse2"}))
    with pytest.raises(ArtifactError, match="this CPU lacks"):
        Session(artifact)


def test_kernels_that_refuse_their_arrays_are_one_line(artifact: Path, tmp_path: Path) -> None:
    """Shapes may be wrong in the plan and in the kernel's description alike."""

    def change(manifest: dict) -> None:
        shape = [SHAPE[0], SHAPE[1] * SHAPE[2], SHAPE[3]]
        call = manifest["plan"]["calls"][0]
        manifest["kernels"][call["kernel"]]["parameters"][0]["shape"] = shape
        call["arguments"][0]["shape"] = shape

    path = tmp_path / "wrong.tar"
    rewrite_manifest(artifact, path, change)
    session = Session(path)
    feeds = {"input": image()}
    for work in (lambda: session.run(None, feeds), session.profile, session.run_seconds):
        with pytest.raises(
            ArtifactError, match=r"wrong\.tar: a kernel refuses its arrays"
        ) as refused:
            work()
        assert len(str(refused.value).splitlines()) == 1


def test_compile_is_deterministic(tmp_path: Path) -> None:
    onnx.save(random_model(np.random.default_rng(4), exact=False), tmp_path / "model.onnx")
    paths = [tmp_path / "one.tar", tmp_path / "again.tar"]
    for path in paths:
        assert compile(tmp_path / "model.onnx", target="cpu", output=path).calls
    assert paths[0].read_bytes() == paths[1].read_bytes()
