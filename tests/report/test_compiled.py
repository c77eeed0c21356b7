"""What `autoq compile` says besides its table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx_models.makers import model, node, normal

from autoq.compilation.compiler import CompileReport
from autoq.devices import resolve
from autoq.frontend import from_model
from autoq.graph import optimise
from autoq.graph.float_kernels import float_kernels
from autoq.report.compiled import compile_text


def test_layers_that_compute_in_float32_are_named_with_the_reason():
    reasons = {"conv1": "its bias is no constant"}
    report = CompileReport(Path("m.tar"), resolve("cpu"), (), {}, reasons)
    lines = compile_text(report).splitlines()
    assert (
        "conv1 runs in float32 although its tensors are quantised: its bias is no constant" in lines
    )
    assert "0 of 0 kernels compute with floats" in lines
    assert "float32" not in compile_text(CompileReport(Path("m.tar"), resolve("cpu"), (), {}, {}))


def test_where_a_quantised_model_leaves_integers_is_said():
    """A Sigmoid between integers is a table; a Softmax over rows of a product is no integers."""
    quantised = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "d")]
    scheme = {"s": np.float32(0.05), "z": np.uint8(128), "w": normal(8, 8)}
    inputs = {"x": ((4, 8), "float32")}
    both = [*quantised, node("MatMul", "d w", "m"), node("Relu", "m"), node("Sigmoid", "d", "t"),
            node("QuantizeLinear", "t s z", "u")]  # fmt: skip
    graph = from_model(model(both, inputs, scheme, ("y", "u")))
    found = float_kernels(optimise(graph, resolve("cpu").target))
    assert (found.floats, found.leaves) == (1, ("DequantizeLinear_d",))
    report = CompileReport(Path("m.tar"), resolve("cpu"), (), {}, {}, floats=found)
    line = f"1 of {found.total} kernels compute with floats; the model leaves integers at "
    assert f"{line}DequantizeLinear_d" in compile_text(report).splitlines()
    graph = from_model(model(quantised[:1], inputs, scheme, ("q",)))
    assert not float_kernels(optimise(graph, resolve("cpu").target)).floats


def four_bits(packed: tuple[str, ...], widened: tuple[str, ...]) -> str:
    report = CompileReport(Path("m.tar"), resolve("cuda:sm_80"), (), {}, {}, packed, widened)
    return compile_text(report)


def test_storage_of_four_bit_values_is_counted_and_explained():
    assert "4-bit" not in four_bits((), ())
    assert "2 of 2 layers hold 4-bit values two a byte\n" in four_bits(("a", "b"), ())
    text = four_bits(("a",), ("b", "c", "d", "e"))
    assert (
        "1 of 5 layers hold 4-bit values two a byte; 4 hold the same numbers one a byte, where the "
        "kernels for cuda sm_80 take bytes: b, c, d, ...\n"
    ) in text


def test_layouts_of_convolutions_are_counted():
    layouts = {("NHWC", "NHWCnc"): 1, ("NHWCnc", "NHWCnc"): 12, ("NHWC", "NHWC"): 2}
    report = CompileReport(Path("m.tar"), resolve("cpu"), (), {}, {}, layouts=layouts, relayouts=3)
    assert (
        "layouts of convolutions: 12 NHWCnc, 2 NHWC, 1 NHWC to NHWCnc; 3 re-layouts"
        in compile_text(report).splitlines()
    )


def test_layers_on_records_of_another_device_are_counted():
    lent = {"NVIDIA H200": 3}
    report = CompileReport(Path("m.tar"), resolve("cuda:sm_90a"), (), {}, {}, lent=lent)
    assert (
        "3 layers run on records of NVIDIA H200, which has the same chip; tune them with autoq tune"
        in compile_text(report).splitlines()
    )
