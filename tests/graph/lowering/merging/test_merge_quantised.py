"""Dynamic quantisation is a part of the kernels before and behind it; nothing else becomes one."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_models.makers import model, node, normal
from ptx.kernels import EAGER, run_program
from qdq.oracle import run_in_memory
from with_nvcc import needs_nvcc

from autoq.frontend import from_model
from autoq.graph import Fusion, Layer, evaluate, optimise
from autoq.graph.evaluate import fusion_outputs
from autoq.graph.lowering.fusions import fusion_program
from autoq.templates.operators.dynamic_quantize import DynamicQuantize
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import parse_target

HOPPER, CPU = parse_target("cuda:sm_90a"), parse_target("cpu")
ROWS, WIDTH = 6, 32
OPTIONS = {
    "bias": (0, 1, 1), "tail": ("", "Relu", "Gelu", "Add"), "quantised": (0, 1, 1),
    "per_channel": (0, 1), "scale of another": (0, 0, 1), "zero of another": (0, 0, 1),
    "norm": (0, 1), "sums read": (0, 0, 0, 1), "floats read": (0, 0, 1), "bytes read": (0, 0, 1),
}  # fmt: skip


def random_model(seed: int):
    """Two products of one quantised tensor, whose numbers now and then come from another one."""
    rng = np.random.default_rng(seed)
    has = {name: values[rng.integers(len(values))] for name, values in OPTIONS.items()}
    front = "h" if has["norm"] else "x"
    inputs = {"x": ((ROWS, WIDTH), "float32"), "o": ((5,), "float32")}
    nodes = [node("LayerNormalization", "x g b", "h")] if has["norm"] else []
    nodes += [node("DynamicQuantizeLinear", front, "q s z"),
              node("DynamicQuantizeLinear", "o", "p r y")]  # fmt: skip
    constants = {"g": normal(WIDTH), "b": normal(WIDTH)} if has["norm"] else {}
    outputs = [name for name in ("q", "z") if has["bytes read"]]
    for name, columns in (("1", 16), ("2", 24)):
        weight = rng.integers(-127, 128, (WIDTH, columns)).astype(np.int8)
        scale = rng.uniform(0.001, 0.02, columns if has["per_channel"] else ()).astype(np.float32)
        constants |= {f"w{name}": weight, f"c{name}": scale}
        zero, own = (
            ("y" if has["zero of another"] else "z"),
            "r" if has["scale of another"] else "s",
        )
        nodes += [
            node("MatMulInteger", f"q w{name} {zero}", f"i{name}"),
            node("Cast", f"i{name}", f"f{name}", to=1),
            node("Mul", f"{own} c{name}", f"t{name}"),
            node("Mul", f"f{name} t{name}", f"m{name}"),
        ]
        last = f"m{name}"
        if has["bias"]:
            constants[f"d{name}"] = normal(columns)
            nodes.append(node("Add", f"{last} d{name}", f"a{name}"))
            last = f"a{name}"
        if has["tail"]:
            more = f" u{name}" if has["tail"] == "Add" else ""
            if more:
                inputs[f"u{name}"] = ((ROWS, columns), "float32")
            nodes.append(node(has["tail"], last + more, f"v{name}"))
            last = f"v{name}"
        if has["quantised"]:
            nodes.append(node("DynamicQuantizeLinear", last, f"e{name} k{name} l{name}"))
            outputs += [f"e{name}", f"k{name}", f"l{name}"]
        if has["floats read"] or not has["quantised"]:
            outputs.append(last)
        if has["sums read"]:
            outputs.append(f"i{name}")
    if not {"r", "y"} & {name for item in nodes for name in item.input}:
        outputs.append("p")
    return model(nodes, inputs, constants, tuple(dict.fromkeys(outputs)), opset=20), inputs, has


@pytest.mark.parametrize("seed", range(24))
def test_random_graphs_are_onnxruntimes(seed):
    made, inputs, has = random_model(seed)
    feeds = {name: 2 * normal(*shape) + 0.3 for name, (shape, _) in inputs.items()}
    expected = run_in_memory(made, feeds)
    for target in (HOPPER, CPU):
        graph = optimise(from_model(made), target)
        found = evaluate(graph, feeds)
        for name, value in expected.items():
            step = 1 if value.dtype == np.uint8 else 1e-5 * max(1, np.abs(value).max())
            assert np.abs(found[name].astype(np.float64) - value).max() <= step, (name, has)
        layers = [item for item in graph.nodes if isinstance(item, Layer)]
        products = [item.workload for item in layers if isinstance(item.workload, Gemm)]
        joined = target is HOPPER and not has["sums read"]
        assert len(products) == 2
        assert all(product.dynamic == joined for product in products)
        alone = joined and has["quantised"] and not has["floats read"]
        assert all(product.epilogue.by_range == alone for product in products)
        left = sum(isinstance(item.workload, DynamicQuantize) for item in layers)
        rows = target is HOPPER and bool(has["norm"])
        assert left == 2 - rows + 2 * (bool(has["quantised"]) and not alone)
        assert sum(bool(item.quantised) for item in graph.nodes if isinstance(item, Fusion)) == rows


@needs_nvcc
def test_a_normalisation_writes_floats_and_bytes():
    """More rows than a block has, the last of which is not whole."""
    nodes = [node("LayerNormalization", "x g b", "h"), node("DynamicQuantizeLinear", "h", "q s z")]
    made = model(nodes, {"x": ((13, 100), "float32")}, {"g": normal(100), "b": normal(100) + 1},
                 ("h", "q", "s", "z"))  # fmt: skip
    (fusion,) = optimise(from_model(made), HOPPER).nodes[:1]
    program, arrays = fusion_program(fusion, HOPPER)
    x = normal(13, 100)
    held = [x, *fusion.constants]
    given = {spec.name: array.reshape(-1) for spec, array in zip(arrays, held, strict=False)}
    outputs = {spec.name: spec.stored for spec in arrays[len(given) :]}
    found = run_program(program, HOPPER, given, outputs, EAGER, {*given} - {arrays[0].name})
    for made, expected in zip(found.values(), fusion_outputs(fusion, [x]), strict=True):
        near = np.abs(made.astype(np.float64).reshape(-1) - expected.reshape(-1))
        assert near.max() <= (1 if made.dtype == np.uint8 else 1e-5)
