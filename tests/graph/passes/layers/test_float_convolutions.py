"""Convolutions of float16 and bfloat16 become layers of these types, with what follows them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx_models.makers import model, node
from qdq.oracle import run_in_memory

from autoq.frontend import from_model
from autoq.graph import Layer, evaluate, optimise
from autoq.templates.operators.float_conv2d import FloatConv2d
from autoq.templates.target import parse_target

HOPPER, AMPERE = parse_target("cuda:sm_90a"), parse_target("cuda:sm_80")


class RandomNetwork:
    """A random graph of convolutions of float16 and what lies between them.

    Tensors are read by any number of later nodes, or by none; some of them are outputs.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        size = int(self.rng.choice([6, 9]))
        self.nodes, self.constants = [], {}
        self.shapes = {"x": (2, int(self.rng.choice([3, 8, 12])), size, size)}
        for _ in range(7):
            self.add()
        names = [*self.shapes][1:]
        outputs = {names[-1], *self.rng.choice(names, 2)}
        self.model = model(
            self.nodes, {"x": (self.shapes["x"], "float16")}, self.constants, sorted(outputs)
        )

    def halves(self, *shape: int, scale: float = 1.0) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = (self.rng.standard_normal(shape) * scale).astype(np.float16)
        return name

    def write(self, op: str, inputs: list[str], shape: tuple[int, ...], **attributes) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(node(op, " ".join(inputs), name, **attributes))
        self.shapes[name] = shape
        return name

    def add(self) -> None:
        rng, x = self.rng, str(self.rng.choice([*self.shapes]))
        shape = self.shapes[x]
        kind = rng.choice(["conv", "conv", "conv", "relu", "pool", "add", "concat"])
        alike = [name for name, other in self.shapes.items() if other == shape]
        if kind == "relu":
            self.write("Relu", [x], shape)
        elif kind == "pool":
            self.write("MaxPool", [x], shape, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        elif kind == "add":
            self.write("Add", [x, str(rng.choice(alike))], shape)
        elif kind == "concat":
            both = (shape[0], 2 * shape[1], *shape[2:])
            self.write("Concat", [x, str(rng.choice(alike))], both, axis=1)
        else:
            self.conv(x, shape)

    def conv(self, x: str, shape: tuple[int, ...]) -> None:
        rng, (n, c, h, w) = self.rng, shape
        k = int(rng.choice([c, 8, 5, 16]))
        shared = [groups for groups in (2, 4, c) if c % groups == k % groups == 0]
        groups = int(rng.choice(shared)) if shared and rng.random() < 0.3 else 1
        r = int(rng.choice([1, 3, 4])) if h > 3 else 1
        stride, dilation = int(rng.choice([1, 1, 2, 3])), int(rng.choice([1, 1, 2]))
        pads = [int(rng.integers(0, 2)) if r > 1 else 0 for _ in range(4)]
        extents = [(e + a + b - dilation * (r - 1) - 1) // stride + 1
                   for e, a, b in ((h, pads[0], pads[2]), (w, pads[1], pads[3]))]  # fmt: skip
        if min(extents) < 1:
            return
        filters = self.halves(k, c // groups, r, r, scale=(r * r * c / groups) ** -0.5)
        inputs = [x, filters] + ([self.halves(k)] if rng.random() < 0.5 else [])
        y = self.write("Conv", inputs, (n, k, *extents), kernel_shape=[r, r], pads=pads,
                       strides=[stride] * 2, dilations=[dilation] * 2, group=groups)  # fmt: skip
        same = [name for name, other in self.shapes.items() if other == (n, k, *extents)]
        if rng.random() < 0.5:
            y = self.write("Add", [y, str(rng.choice(same))], (n, k, *extents))
        if rng.random() < 0.5:
            self.write("Relu", [y], (n, k, *extents))


@pytest.mark.parametrize("seed", range(14))
def test_random_networks_agree_with_onnxruntime(seed):
    made = RandomNetwork(seed)
    graph = optimise(from_model(made.model), HOPPER)
    feeds = {"x": made.rng.standard_normal(made.shapes["x"]).astype(np.float16)}
    found, wanted = evaluate(graph, feeds), run_in_memory(made.model, feeds)
    for name, value in wanted.items():
        assert found[name].dtype == np.float16
        error = np.abs(found[name].astype(np.float32) - value.astype(np.float32)).max()
        assert error <= 1e-2 * np.abs(value.astype(np.float32)).max()
    convolutions = {item.name for item in made.nodes if item.op_type == "Conv"}
    layers = [item for item in graph.nodes if isinstance(item, Layer)]
    taken = {name for item in layers if isinstance(item.workload, FloatConv2d)
             for name in item.covers}  # fmt: skip
    kept = {name for item in layers for name in item.covers}
    assert taken.issuperset(convolutions & kept)


@pytest.mark.parametrize("groups, filters", [(24, 24), (24, 48), (4, 12)])
@pytest.mark.parametrize("target", [HOPPER, AMPERE], ids=str)
def test_groups_keep_their_channels_and_read_no_blocks(target, groups, filters):
    shape = (filters, 24 // groups, 2, 2)
    constants = {"w": np.random.default_rng(7).standard_normal(shape).astype(np.float16)}
    conv = node("Conv", "x w", "h", strides=[2, 2], group=groups)
    made = model([conv, node("Relu", "h", "y")], {"x": ((1, 24, 8, 6), "float16")}, constants)
    graph = optimise(from_model(made), target)
    (workload,) = (item.workload for item in graph.nodes if isinstance(item, Layer))
    assert workload == FloatConv2d(1, 8, 6, 24, filters, 2, 2, (2, 2), activation="relu",
                                   groups=groups)  # fmt: skip
    feeds = {"x": np.random.default_rng(8).standard_normal((1, 24, 8, 6)).astype(np.float16)}
    found, wanted = evaluate(graph, feeds)["y"], run_in_memory(made, feeds)["y"]
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=1e-2, strict=True)


def _bottleneck(dtype):
    rng = np.random.default_rng(0)
    constants = {
        "a": rng.standard_normal((16, 32, 3, 3)).astype(dtype),
        "c": rng.standard_normal((32, 16, 1, 1)).astype(dtype),
        "b": rng.standard_normal(32).astype(dtype),
    }
    nodes = [
        node("Conv", "x a", "h", pads=[1, 1, 1, 1]),
        node("Relu", "h", "i"),
        node("Conv", "i c b", "j"),
        node("Add", "j x", "k"),
        node("Relu", "k", "y"),
    ]
    return model(nodes, {"x": ((1, 32, 6, 6), dtype)}, constants)


@pytest.mark.parametrize(
    "r, stride, pad, block, taps",
    [(7, 2, 3, 2, (4, 4)), (4, 4, 0, 4, (1, 1)), (3, 2, 1, 2, (2, 2)), (3, 1, 1, 1, (3, 3))],
)
def test_few_channels_are_read_in_blocks_of_pixels(r, stride, pad, block, taps):
    constants = {"w": np.random.default_rng(3).standard_normal((8, 3, r, r)).astype(np.float16)}
    conv = node("Conv", "x w", "y", strides=[stride] * 2, pads=[pad] * 4)
    made = model([conv], {"x": ((1, 3, 16, 24), "float16")}, constants)
    graph = optimise(from_model(made), HOPPER)
    (workload,) = (item.workload for item in graph.nodes if isinstance(item, Layer))
    assert (workload.h, workload.w) == (16 // block, 24 // block)
    assert (workload.r, workload.s) == taps and workload.c == -(-3 * block**2 // 8) * 8
    feeds = {"x": np.random.default_rng(4).standard_normal((1, 3, 16, 24)).astype(np.float16)}
    found, wanted = evaluate(graph, feeds)["y"], run_in_memory(made, feeds)["y"]
    assert np.abs(found.astype(np.float32) - wanted).max() <= 1e-2 * np.abs(wanted).max()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
def test_a_residual_block_is_two_layers_of_its_type(dtype):
    graph = optimise(from_model(_bottleneck(dtype)), HOPPER)
    name = np.dtype(dtype).name
    first, second = (item.workload for item in graph.nodes if isinstance(item, Layer))
    assert first == FloatConv2d(1, 6, 6, 32, 16, 3, 3, padding=(1, 1, 1, 1), in_dtype=name,
                                out_dtype=name, activation="relu")  # fmt: skip
    assert second == FloatConv2d(1, 6, 6, 16, 32, 1, 1, in_dtype=name, out_dtype=name, bias=True,
                                 activation="relu", residual=True, residual_first=True)  # fmt: skip
    kinds = [item.kind for item in graph.nodes if not isinstance(item, Layer)]
    assert kinds == ["Transpose", "Transpose"]


def test_largest_values_are_taken_of_float32():
    constants = {"w": np.random.default_rng(5).standard_normal((16, 8, 3, 3)).astype(np.float16)}
    pool = node("MaxPool", "h", "y", kernel_shape=[2, 2], strides=[2, 2])
    made = model([node("Conv", "x w", "h"), pool], {"x": ((1, 8, 10, 10), "float16")}, constants)
    graph = optimise(from_model(made), HOPPER)
    conv, pooled = (item.workload for item in graph.nodes if isinstance(item, Layer))
    assert conv.out_dtype == pooled.in_dtype == "float32"
    feeds = {"x": np.random.default_rng(6).standard_normal((1, 8, 10, 10)).astype(np.float16)}
    found, wanted = evaluate(graph, feeds)["y"], run_in_memory(made, feeds)["y"]
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=1e-2, strict=True)


def test_other_gpus_compute_them_in_float32():
    graph = optimise(from_model(_bottleneck(np.float16)), AMPERE)
    workloads = [item.workload for item in graph.nodes if isinstance(item, Layer)]
    assert not any(isinstance(workload, FloatConv2d) for workload in workloads)


@pytest.mark.parametrize("target", [HOPPER, AMPERE, parse_target("cpu")], ids=str)
def test_a_cast_stands_in_front(target):
    nodes = [node("Cast", "x", "h", to=10), node("Conv", "h c", "y")]
    constants = {"c": np.random.default_rng(1).standard_normal((8, 8, 1, 1)).astype(np.float16)}
    made = model(nodes, {"x": ((1, 8, 3, 3), "float32")}, constants)
    feeds = {"x": np.random.default_rng(2).standard_normal((1, 8, 3, 3), np.float32)}
    found = evaluate(optimise(from_model(made), target), feeds)["y"]
    wanted = run_in_memory(made, feeds)["y"].astype(np.float32)
    assert np.abs(found - wanted).max() <= 1e-2 * np.abs(wanted).max()
