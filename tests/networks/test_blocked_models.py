"""Models whose convolutions hand over NHWCnc: what compile says of them, and their bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from gpu_kernels import OPTIONS, end_if_compile_only, gpu_host
from onnx import helper, numpy_helper

from autoq import Session, compile, frontend
from autoq.devices import Host
from autoq.errors import TargetError
from autoq.graph import evaluate, optimise
from autoq.kernel.nvcc import find_nvcc
from autoq.quantization.quantize import quantize
from autoq.records import Device, Journal, Record
from autoq.report.compiled import compile_text
from autoq.templates.arrays.layout import NHWCNC
from autoq.templates.cuda.mma_sync.conv2d_mma_sync import TEMPLATE
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.registry import TEMPLATES
from autoq.templates.target import parse_target
from autoq.tuning.prepare import model_workloads

CHANNELS, IMAGE = 32, 9


def residual_network() -> onnx.ModelProto:
    """Pooling, three convolutions with a residual around two of them, and pooling; 8 images."""
    rng = np.random.default_rng(2)
    tensors = {
        name: value.astype(np.float32)
        for i in range(3)
        for name, value in (
            (f"w{i}", rng.normal(0, 0.08, (CHANNELS, CHANNELS, 3, 3))),
            (f"b{i}", rng.normal(0, 0.1, CHANNELS)),
        )
    }
    nodes = [helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[1, 1])]
    for i, (x, y) in enumerate((("p", "c0"), ("r0", "c1"), ("r1", "c2"))):
        nodes.append(helper.make_node("Conv", [x, f"w{i}", f"b{i}"], [y], f"conv{i}", pads=[1] * 4))
        nodes.append(helper.make_node("Relu", [y], [f"r{i}"]) if i < 2 else
                     helper.make_node("Add", ["c2", "r0"], ["s"]))  # fmt: skip
    nodes.append(helper.make_node("GlobalAveragePool", ["s"], ["y"]))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "residual", [value("x", onnx.TensorProto.FLOAT, [8, CHANNELS, IMAGE, IMAGE])],
        [value("y", onnx.TensorProto.FLOAT, [8, CHANNELS, 1, 1])],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("residual")
    onnx.save(residual_network(), folder / "float.onnx")
    quantize(folder / "float.onnx", None, folder / "int8.onnx")
    return folder / "int8.onnx"


def write_records(path: Path, model: Path, host: Host) -> None:
    """Times of every convolution in every layout: 40 us, 15 less for each NHWCnc side."""
    records = []
    for found in model_workloads(model, host.target, TEMPLATES, None):
        laid = found.workload.laid_out() if isinstance(found.workload, Conv2d) else []
        for work in laid:
            space = TEMPLATE.space(work, host.target)
            config = space.to_dict(TEMPLATE.default(work, host.target))
            seconds = 40e-6 - 15e-6 * (work.in_layout, work.out_layout).count(NHWCNC)
            device = Device(host.device or "GPU", host.target.arch)
            records.append(
                Record(work, TEMPLATE.name, TEMPLATE.version, config, device,
                       "2026-11-21T12:00:00Z", seconds, repeats=5)
            )  # fmt: skip
    Journal(path).append(records)


def _nvcc() -> bool:
    try:
        find_nvcc()
    except TargetError:
        return False
    return True


@pytest.mark.skipif(not _nvcc(), reason="there is no nvcc")
def test_compile_lays_a_chain_out_and_says_so(model, tmp_path):
    host = Host(parse_target("cuda:sm_80"), None)
    write_records(tmp_path / "log.jsonl", model, host)
    report = compile(
        model, target=host, output=tmp_path / "m.tar", tuning_records=[tmp_path / "log.jsonl"],
        use_shipped_records=False,
    )  # fmt: skip
    text = compile_text(report)
    assert "layouts of convolutions: 3 NHWCnc; 2 re-layouts" in text.splitlines()
    rows = [call.template for call in report.calls if call.workload.endswith(NHWCNC)]
    assert rows == ["relayout_cuda", *["conv2d_mma_sync"] * 3]


@pytest.mark.gpu
def test_a_chain_in_nhwcnc_gives_the_same_bits(model, tmp_path):
    host = gpu_host()
    write_records(tmp_path / "log.jsonl", model, host)
    report = compile(
        model, target=host, output=tmp_path / "m.tar", tuning_records=[tmp_path / "log.jsonl"],
        use_shipped_records=False, cache_dir=OPTIONS.folder,
    )  # fmt: skip
    end_if_compile_only()
    assert report.layouts == {(NHWCNC, NHWCNC): 3} and report.relayouts == 2
    x = np.random.default_rng(5).standard_normal((8, CHANNELS, IMAGE, IMAGE), np.float32)
    expected = evaluate(optimise(frontend.load(model), host.target), {"x": x})["y"]
    (found,) = Session(tmp_path / "m.tar").run(None, {"x": x})
    np.testing.assert_array_equal(found, expected)
    assert np.ptp(expected) > 0
