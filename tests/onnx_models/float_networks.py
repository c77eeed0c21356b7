"""Random float32 networks of convolutions and Linear layers."""

from __future__ import annotations

import numpy as np
import onnx

from onnx_models.makers import model, node


def random_network(rng: np.random.Generator) -> tuple[onnx.ModelProto, np.ndarray]:
    """Convolutions of random forms with Linear layers behind them, and an input x."""
    shape = [
        int(size) for size in (rng.integers(1, 4), rng.integers(1, 8), *rng.integers(6, 12, 2))
    ]
    nodes, weights, x, channels, image = [], {}, "x", shape[1], shape[2:]
    for i in range(int(rng.integers(1, 4))):
        filters, taps = int(rng.integers(1, 9)), rng.integers(1, 4, 2)
        groups = channels if rng.random() < 0.2 else 1
        filters *= groups if groups > 1 else 1
        size = (filters, channels // groups, *(int(tap) for tap in taps))
        weights[f"w{i}"] = rng.standard_normal(size, np.float32) / np.float32(np.sqrt(size[1]))
        inputs = f"{x} w{i}"
        if rng.random() < 0.5:
            weights[f"b{i}"] = rng.standard_normal(filters, np.float32)
            inputs += f" b{i}"
        pads, strides = rng.integers(0, 3, 4).tolist(), rng.integers(1, 3, 2).tolist()
        for axis in range(2):  # at least one window
            pads[axis] += max(0, int(taps[axis]) - image[axis] - pads[axis] - pads[axis + 2])
            padded = image[axis] + pads[axis] + pads[axis + 2]
            image[axis] = (padded - int(taps[axis])) // strides[axis] + 1
        nodes.append(node("Conv", inputs, f"c{i}", group=groups, pads=pads, strides=strides))
        x, channels = f"c{i}", filters
        if rng.random() < 0.6:
            nodes.append(node(["Relu", "Tanh"][int(rng.integers(2))], x, f"r{i}"))
            x = f"r{i}"
    nodes.append(node("GlobalAveragePool", x, "p"))
    nodes.append(node("Flatten", "p", "f"))
    weights["w"] = rng.standard_normal((channels, 9), np.float32)
    weights["b"] = rng.standard_normal(9, np.float32)
    linear = (
        [node("Gemm", "f w b", "y", beta=0.5)],
        [node("MatMul", "f w", "m"), node("Add", "m b")],
    )
    nodes += linear[int(rng.integers(2))]
    made = model(nodes, {"x": (shape, "float32")}, weights)
    return made, rng.standard_normal(shape, np.float32)
