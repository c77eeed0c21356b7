"""Random networks of convolutions and sums: what leaves them is constant, and outputs stay."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models.oracle import run_onnxruntime

from autoq.pruning.dead_channels import DeadChannels
from autoq.pruning.model import PruneOptions, prune
from autoq.pruning.pattern import Pattern
from autoq.pruning.ranking import Bounds

WIDTHS, EXTENT = (32, 48, 64), 8


class RandomNetwork:
    """Convolutions that read earlier ones through element-wise nodes, and add to others."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.nodes, self.tensors = rng, [], []
        made = [(self.convolution("x", 5, 32, 3), 32)]
        for _ in range(int(rng.integers(3, 8))):
            x, channels = made[-1 if rng.random() < 0.7 else rng.integers(len(made))]
            if rng.random() < 0.7:
                x = self.node(str(rng.choice(["Relu", "Sigmoid", "Tanh"])), [x])
            if rng.random() < 0.25:
                x = self.node("MaxPool", [x], kernel_shape=[3, 3], pads=[1] * 4)
            width = int(rng.choice(WIDTHS))
            y = self.convolution(x, channels, width, int(rng.choice([1, 3])))
            alike = [name for name, own in made if own == width]
            if alike and rng.random() < 0.7:
                kind = "Mul" if rng.random() < 0.25 else "Add"
                y = self.node(kind, [y, alike[rng.integers(len(alike))]])
            made.append((y, width))
        y = self.node("Flatten", [self.node("GlobalAveragePool", [made[-1][0]])])
        weight = self.tensor((made[-1][1], 12), 0.2)
        self.nodes.append(helper.make_node("Gemm", [y, weight], ["y"], weight))

    def tensor(self, shape: tuple[int, ...], deviation: float) -> str:
        """A constant of random numbers."""
        name = f"t{len(self.tensors)}"
        values = self.rng.normal(0.1, deviation, shape).astype(np.float32)
        self.tensors.append(numpy_helper.from_array(values, name))
        return name

    def node(self, kind: str, inputs: list[str], **attributes: object) -> str:
        """The output of another node."""
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def convolution(self, x: str, channels: int, width: int, size: int) -> str:
        """One whose outputs are as large as its inputs, most with a bias."""
        inputs = [x, self.tensor((width, channels, size, size), (channels * size**2) ** -0.5)]
        inputs += [self.tensor((width,), 0.5)] if self.rng.random() < 0.8 else []
        return self.node("Conv", inputs, pads=[size // 2] * 4)

    def model(self) -> onnx.ModelProto:
        """As ONNX has it."""
        shapes = {"x": [2, 5, EXTENT, EXTENT], "y": [2, 12]}
        x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items())
        graph = helper.make_graph(self.nodes, "random", [x], [y], self.tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def masked(
    model: onnx.ModelProto, masks: Mapping[str, np.ndarray], moved: Mapping[str, np.ndarray]
) -> onnx.ModelProto:
    """The model with its weights masked, but for rows of channels `moved`, by reader."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    tensors = {tensor.name: tensor for tensor in made.graph.initializer}
    for node in made.graph.node:
        if node.name in masks:
            mask = masks[node.name].copy()
            if node.name in moved:
                rows = np.tile(moved[node.name], len(mask) // len(moved[node.name]))
                mask[np.ix_(rows, mask.any(axis=0))] = True
            values = numpy_helper.to_array(tensors[node.input[1]])
            if values.ndim == 4:
                k, c, *taps = values.shape
                mask = np.moveaxis(mask.reshape(*taps, c, k), (-1, -2), (0, 1))
            kept = np.where(mask, values, 0).astype(np.float32)
            tensors[node.input[1]].CopyFrom(numpy_helper.from_array(kept, node.input[1]))
    return made


@pytest.mark.parametrize(
    ("joint", "columns", "shared"),
    [(False, 0.5, False), (True, 0.5, False), (True, 0.9, False), (True, 0.5, True)],
)
@pytest.mark.parametrize("seed", range(4))
def test_constant_channels_leave_and_outputs_stay(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    joint: bool,
    columns: float,
    shared: bool,
) -> None:
    rng = np.random.default_rng(seed)
    model = RandomNetwork(rng).model()
    onnx.save(model, str(tmp_path / "m.onnx"))
    reads = {n.name: n.input[0] for n in model.graph.node if n.op_type in ("Conv", "Gemm")}
    skip = tuple(name for name in reads if rng.random() < 0.1)
    moved: dict[str, np.ndarray] = {}
    add = DeadChannels._add

    def spy(self, link, gone, constant, masks, survivors):
        for place in link.consumers:
            name = self._weights[place].name
            moved[name] = (gone if name in skip else constant).copy()
        add(self, link, gone, constant, masks, survivors)

    monkeypatch.setattr(DeadChannels, "_add", spy)
    options = PruneOptions(
        skip, Bounds(0.5, 0.9), joint_channels=joint, shared_rows=shared, columns=columns
    )
    result = prune(tmp_path / "m.onnx", tmp_path / "o.onnx", Pattern.make("tw", 8), 0.7, options)
    onnx.checker.check_model(onnx.load(tmp_path / "o.onnx"), full_check=True)
    masks = {one.name: one.structure.mask for one in result.weights}
    shown = masked(model, masks, {})
    for name in {reads[reader] for reader in moved}:
        shown.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    onnx.save(shown, str(tmp_path / "shown.onnx"))
    onnx.save(masked(model, masks, moved), str(tmp_path / "hand.onnx"))
    x = {"x": rng.standard_normal((2, 5, EXTENT, EXTENT)).astype(np.float32)}
    inner = run_onnxruntime(tmp_path / "shown.onnx", x)
    for reader, channels in moved.items():
        values = inner[reads[reader]]
        spread = np.ptp(values, axis=tuple(axis for axis in range(values.ndim) if axis != 1))
        assert channels.any() and (spread[channels] < 1e-6).all()
    y, expected = (run_onnxruntime(tmp_path / name, x)["y"] for name in ("o.onnx", "hand.onnx"))
    assert np.abs(y - expected).max() < 1e-5 * np.abs(expected).max()
