"""How 4-bit tensors lie in memory: packed where kernels take them so, always the same numbers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from autoq import compile
from autoq.errors import TargetError
from autoq.frontend import from_model
from autoq.graph import Graph, Layer, evaluate, optimise
from autoq.graph.passes.dtypes.storage import layers_by_storage
from autoq.kernel.nvcc import find_nvcc
from autoq.runtime.artifact import read_artifact
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.registry import matching
from autoq.templates.target import parse_target

DTYPES = {"u8": np.uint8, "i8": np.int8, "u4": ml_dtypes.uint4, "i4": ml_dtypes.int4}
CUDA = ["cuda:sm_75", "cuda:sm_80", "cuda:sm_90a"]


def numbers(
    rng: np.random.Generator, dtype: str, shape: tuple[int, ...], symmetric: bool = False
) -> np.ndarray:
    """Random numbers over the whole range of a dtype, or over as much on either side of 0."""
    limits = ml_dtypes.iinfo(np.dtype(DTYPES[dtype]))
    least, most = int(limits.min), int(limits.max)
    return rng.integers(-most if symmetric else least, most + 1, shape).astype(DTYPES[dtype])


class Chain:
    """A QDQ model of convolutions and other layers, one behind the other, in opset 21."""

    def __init__(self, channels: int, dtype: str, images: int = 2) -> None:
        self._rng = np.random.default_rng(5)
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, np.ndarray] = {}
        self._channels = channels
        self._x = ("x", dtype)
        self._input = numbers(self._rng, dtype, (images, channels, 8, 7))

    def _scheme(self, name: str, dtype: str) -> list[str]:
        self._constants[f"{name}.s"] = np.float32(0.3 if "4" in dtype else 0.02)
        self._constants[f"{name}.z"] = np.array(0, DTYPES[dtype])
        return [f"{name}.s", f"{name}.z"]

    def layer(self, name: str, op: str, output: str, *more: str, **attributes: object) -> Chain:
        """DequantizeLinear, `op`, QuantizeLinear to the dtype that the next layer reads."""
        x, dtype = self._x
        add = self._nodes.append
        scheme = [f"{x}.s", f"{x}.z"] if x != "x" else self._scheme("x", dtype)
        add(helper.make_node("DequantizeLinear", [x, *scheme], [f"{name}.d"]))
        add(helper.make_node(op, [f"{name}.d", *more], [f"{name}.r"], name, **attributes))
        add(helper.make_node("QuantizeLinear", [f"{name}.r", *self._scheme(name, output)], [name]))
        self._x = (name, output)
        return self

    def conv(self, name: str, filters: int, weights: str, output: str, groups: int = 1) -> Chain:
        """A 3x3 convolution with weights of a dtype."""
        shape = (filters, self._channels // groups, 3, 3)
        self._channels = filters
        weight = self._weight(name, shape, weights)
        return self.layer(name, "Conv", output, weight, pads=[1] * 4, group=groups)

    def gemm(self, name: str, inputs: int, filters: int) -> Chain:
        """A matrix product with int4 weights to 8 bits."""
        weight = self._weight(name, (filters, inputs), "i4")
        return self.layer(name, "Gemm", "i8", weight, transB=1)

    def _weight(self, name: str, shape: tuple[int, ...], dtype: str) -> str:
        values = numbers(self._rng, dtype, shape, symmetric=True)
        spread = np.std(values.astype(np.float32)) * np.sqrt(np.prod(shape[1:]))
        self._constants[f"{name}.w"] = values
        self._constants[f"{name}.ws"] = np.full(shape[0], 1 / spread, np.float32)
        inputs = [f"{name}.w", f"{name}.ws"]
        self._nodes.append(helper.make_node("DequantizeLinear", inputs, [f"{name}.f"], axis=0))
        return f"{name}.f"

    def semantic(self) -> Graph:
        """The graph as it is imported."""
        output = onnx.ValueInfoProto(name=self._x[0])
        constants = [numpy_helper.from_array(np.asarray(a), n) for n, a in self._constants.items()]
        kind = helper.np_dtype_to_tensor_dtype(self._input.dtype)
        x = helper.make_tensor_value_info("x", kind, self._input.shape)
        graph = helper.make_graph(self._nodes, "chain", [x], [output], constants)
        opsets = [helper.make_opsetid("", 21)]
        made = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        return from_model(made)

    def graph(self, target: str) -> Graph:
        """The optimised graph."""
        return optimise(self.semantic(), parse_target(target))

    def run(self, target: str) -> np.ndarray:
        """What the optimised graph computes of random numbers."""
        (y,) = evaluate(self.graph(target), {"x": self._input}).values()
        return y


def convolutions(graph: Graph) -> dict[str, tuple[str, str, str]]:
    """Stored dtypes of input, weights and output of each convolution."""
    return {
        node.name: (node.workload.in_dtype, node.workload.weight_dtype,
                    node.workload.epilogue.out_dtype)
        for node in graph.nodes
        if isinstance(node, Layer) and isinstance(node.workload, Conv2d)
    }  # fmt: skip


def check(chain: Chain, target: str) -> Graph:
    """The graph, after checking that it holds together and computes what the CPU's computes."""
    graph = chain.graph(target)
    for node in graph.nodes:
        if isinstance(node, Layer):
            assert matching(node.workload, parse_target(target)), node.workload
    expected = chain.run("cpu")
    assert len(np.unique(expected)) > 5
    np.testing.assert_array_equal(chain.run(target), expected)
    return graph


def inner() -> Chain:
    """8 bits into 4-bit layers and back."""
    chain = Chain(32, "u8").conv("a", 32, "i8", "u4").conv("b", 64, "i4", "i4")
    return chain.conv("c", 32, "i4", "i8")


@pytest.mark.parametrize("target", CUDA)
def test_tensors_between_convolutions_are_packed(target):
    graph = check(inner(), target)
    assert convolutions(graph) == {
        "a": ("uint8", "int8", "uint4"),
        "b": ("uint4", "int4", "int4"),
        "c": ("int4", "int4", "int8"),
    }
    assert layers_by_storage(graph) == (("a", "b", "c"), ())
    sizes = {tensor.dtype: tensor.bytes / tensor.size for tensor in graph.tensors.values()}
    assert sizes["uint4"] == sizes["int4"] == 0.5


def test_on_a_cpu_every_value_takes_a_byte():
    graph = check(inner(), "cpu")
    stored = {dtype for dtypes in convolutions(graph).values() for dtype in dtypes}
    assert stored == {"uint8", "int8"}
    assert layers_by_storage(graph) == ((), ("a", "b", "c"))
    assert sum(tensor.values != "" for tensor in graph.tensors.values()) == 2


@pytest.mark.parametrize("target", CUDA)
def test_inputs_and_outputs_are_never_packed(target):
    graph = check(Chain(32, "u4").conv("a", 64, "i4", "i4").conv("b", 32, "i4", "u4"), target)
    assert convolutions(graph) == {
        "a": ("uint8", "int4", "int4"),
        "b": ("int4", "int4", "uint8"),
    }
    assert graph.tensors["x"].values == "uint4" and graph.tensors["b"].values == "uint4"


def test_what_an_operator_reads_takes_a_byte():
    chain = Chain(32, "u8").conv("a", 32, "i8", "u4").layer("t", "Softmax", "u4", axis=1)
    graph = check(chain.conv("b", 32, "i4", "i4").conv("c", 32, "i4", "u8"), "cuda:sm_80")
    assert convolutions(graph) == {
        "a": ("uint8", "int8", "uint8"),
        "b": ("uint8", "int4", "int4"),
        "c": ("int4", "int4", "uint8"),
    }
    packed, wide = layers_by_storage(graph)
    assert packed == ("c",) and {"a", "b"} < set(wide) and len(wide) == 3


def test_a_kernel_without_a_packed_template_widens_its_neighbours_alone():
    chain = Chain(32, "u8").conv("a", 32, "i8", "u4").conv("b", 32, "i4", "u4", groups=8)
    graph = check(chain.conv("c", 32, "i4", "u4").conv("d", 32, "i4", "u8"), "cuda:sm_80")
    assert {name: dtypes[::2] for name, dtypes in convolutions(graph).items()} == {
        "a": ("uint8", "uint8"),  # groups of 4 channels are 2 bytes, less than copies move
        "b": ("uint8", "uint8"),
        "c": ("uint8", "uint4"),
        "d": ("uint4", "uint8"),
    }


def test_rows_that_end_within_a_byte_are_not_read_as_others():
    """8 x 7 pixels of 33 channels, flattened for a product, start at odd nibbles."""
    for filters, stored in ((33, "uint8"), (34, "uint4")):
        chain = Chain(32, "u8").conv("a", filters, "i8", "u4")
        chain.layer("t", "Flatten", "u4")
        flattened = chain.gemm("b", 8 * 7 * filters, 16)
        graph = check(flattened, "cuda:sm_80")
        assert convolutions(graph)["a"][2] == stored


@pytest.mark.parametrize(("target", "weights"), [("cuda:sm_80", "int4"), ("cuda:sm_90a", "int8")])
def test_weights_beside_bytes_are_packed_unless_a_better_template_takes_bytes(target, weights):
    graph = check(Chain(32, "u8").conv("a", 32, "i4", "i8"), target)
    assert convolutions(graph)["a"] == ("uint8", weights, "int8")


def test_an_artifact_counts_two_values_a_byte(tmp_path):
    try:
        find_nvcc()
    except TargetError:
        pytest.skip("there is no nvcc")
    report = compile(inner().semantic(), target="cuda:sm_80", output=tmp_path / "chain.tar")
    assert report.packed == ("a", "b", "c") and report.widened == ()
    calls = {call.layer: call for call in read_artifact(report.path).plan.calls}
    (x, *_), (y,) = calls["b"].arguments, calls["b"].outputs
    assert (x.shape, x.dtype, x.bytes) == ((2, 8, 7, 16), "uint8", 2 * 8 * 7 * 16)
    assert (y.shape, y.dtype) == ((2, 8, 7, 32), "uint8")
    assert x.offset + x.bytes <= y.offset or y.offset + y.bytes <= x.offset
