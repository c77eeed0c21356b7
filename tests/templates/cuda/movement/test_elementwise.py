"""Element-wise CUDA kernels: every element as numpy has it, whatever is broadcast."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from gpu_kernels import end_if_compile_only, gpu_target
from kernel_runs import emulated_function, run_function_on_gpu
from with_nvcc import needs_nvcc

from autoq.graph import Fusion, Primitive
from autoq.graph.lowering.cuda.elementwise import element_formula
from autoq.graph.lowering.exact_reciprocal import exact_reciprocal
from autoq.graph.lowering.fusions import fusion_prim_func
from autoq.graph.primitive_numpy import evaluate_fusion
from autoq.graph.shapes import BINARY, UNARY, broadcast
from autoq.kernel import compile_kernel
from autoq.templates.cuda.movement.elementwise_walk import Walk
from autoq.templates.target import parse_target

HOPPER = parse_target("cuda:sm_90a")
_ATTRIBUTES = {
    "Clip": {"low": -0.5, "high": 0.75},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    "LeakyRelu": {"alpha": 0.1},
    "Elu": {"alpha": 1.5},
}


def primitive(op: str, *arguments: int, dtype: str = "float32", **attributes: object) -> Primitive:
    return Primitive(op, arguments, dtype, tuple(sorted(attributes.items())))


def fusion(primitives, shapes, dtypes, constants=()):
    shape = broadcast([*shapes, *(array.shape for array in constants)])
    names = tuple(f"x{index}" for index in range(len(shapes)))
    return Fusion(
        tuple(primitives), names, tuple(shapes), tuple(dtypes), constants, "y", shape, ("node",)
    )


def quantize(argument: int, dtype: str = "int8", scale: float = 0.013) -> Primitive:
    zero_point, low = (-5, -128) if dtype == "int8" else (77, 0)
    bounds = {"low": float(low - zero_point), "high": float(low + 255 - zero_point)}
    return primitive(
        "quantize", argument, dtype=dtype, scale=scale, zero_point=zero_point, **bounds
    )


def pair(op, shapes, dtypes, out_dtype="int8"):
    """`op` of two integer tensors of unrelated schemes."""
    return fusion(
        [
            primitive("dequantize", 0, scale=0.02, zero_point=3),
            primitive("dequantize", 1, scale=0.0117, zero_point=100),
            primitive(op, 2, 3),
            quantize(4, out_dtype),
        ],
        shapes, dtypes,
    )  # fmt: skip


def summed(ops, shape):
    """The sum of every unary operation of one tensor."""
    primitives = [primitive(ops[0], 0, **_ATTRIBUTES.get(ops[0], {}))]
    for op in ops[1:]:
        primitives.append(primitive(op, 0, **_ATTRIBUTES.get(op, {})))
        primitives.append(primitive("Add", len(primitives) - 1, len(primitives)))
    return fusion(primitives, [shape], ["float32"])


def chained(ops, shapes):
    """`op(... op(op(x0, x1), x1) ..., x1)`."""
    primitives = [primitive(op, 0 if index == 0 else index + 1, 1) for index, op in enumerate(ops)]
    return fusion(primitives, shapes, ["float32"] * 2)


EXACT = {
    "gate": pair("Mul", [(2, 5, 7, 48), (2, 1, 1, 48)], ["int8", "uint8"]),
    "gate of 58 channels": pair("Mul", [(2, 3, 5, 58), (2, 1, 1, 58)], ["uint8", "uint8"], "uint8"),
    "gate of many pixels": pair("Mul", [(8, 112, 112, 32), (8, 1, 1, 32)], ["int8", "int8"]),
    "pixels": pair("Mul", [(2, 3, 5, 12), (2, 3, 5, 1)], ["int8", "int8"]),
    "odd": pair("Add", [(3, 5, 7, 3), (3, 5, 7, 3)], ["uint8", "int8"], "uint8"),
    "column and row": pair("Sub", [(7, 1), (6, 1, 9)], ["int8", "int8"]),
    "twice the same": fusion(
        [primitive("dequantize", 0, scale=0.02, zero_point=3), primitive("Mul", 2, 1),
         primitive("Relu", 3),
         quantize(4), primitive("dequantize", 5, scale=0.5, zero_point=7), primitive("Add", 6, 2),
         quantize(7, "uint8", 0.031)],
        [(2, 9, 24)], ["uint8"], (np.linspace(0.5, 1.5, 24, dtype=np.float32),),
    ),
    "mixed": fusion(
        [primitive("dequantize", 0, scale=0.05, zero_point=3), primitive("Add", 2, 1)],
        [(2, 5, 7, 24), (7, 1)], ["int8", "float32"],
    ),
    "scalars": fusion([primitive("Add", 0, 1)], [(), ()], ["float32", "float32"]),
    "rounded to float16": fusion(
        [primitive("Cast", 0, dtype="float16"), primitive("Cast", 1), primitive("Sub", 0, 2)],
        [(3, 5, 33)], ["float32"],
    ),
    "hard swish": fusion(
        [primitive("HardSwish", 0), primitive("Neg", 1)], [(3, 7, 11)], ["float32"]
    ),
}  # fmt: skip
CLOSE = {
    "unary": summed([op for op in UNARY if op not in ("Cast", "Identity")], (3, 5, 33)),
    "binary": chained([op for op in BINARY if op != "Pow"], [(4, 6, 8), (6, 1)]),
    "power": fusion([primitive("Pow", 0, 1)], [(4, 6), (6,)], ["float32"] * 2),
}


def inputs_of(node):
    rng = np.random.default_rng(5)
    arrays = []
    for shape, dtype in zip(node.input_shapes, node.input_dtypes, strict=True):
        if dtype == "float32":
            arrays.append((rng.random(shape) + 0.1).astype(np.float32))
        else:
            limits = np.iinfo(dtype)
            arrays.append(rng.integers(limits.min, limits.max + 1, shape).astype(dtype))
    return arrays


def assert_agrees(name, got, expected):
    if name in EXACT:
        np.testing.assert_array_equal(got, expected)
    else:
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def on_emulator(node, arrays):
    function = fusion_prim_func(node, HOPPER)
    shape = node.output_shape
    output = np.zeros(shape, node.primitives[-1].dtype)
    return emulated_function(function, HOPPER, [*arrays, *node.constants], output)


@needs_nvcc
@pytest.mark.parametrize("name", [name for name in (*EXACT, *CLOSE) if "many" not in name])
def test_agrees_with_numpy_emulated(name):
    node = {**EXACT, **CLOSE}[name]
    arrays = inputs_of(node)
    assert_agrees(name, on_emulator(node, arrays), evaluate_fusion(node, arrays))


@needs_nvcc
@pytest.mark.parametrize("scale", [0.0117, 1 / 3])
def test_quotients_at_ties_round_as_divisions_do(scale):
    """Near k + 1/2 one bit of the quotient decides; far values and infinities saturate."""
    ties = (np.arange(-200, 200, dtype=np.float32) + np.float32(0.5)) * np.float32(scale)
    bits = ties.view(np.int32)[:, None] + np.arange(-8, 9, dtype=np.int32)
    far = np.array([0.0, -0.0, 1e30, -1e30, np.inf, -np.inf, 1e-42], np.float32)
    x = np.concatenate([bits.reshape(-1).view(np.float32), far])
    node = fusion([quantize(0, scale=scale)], [x.shape], ["float32"])
    np.testing.assert_array_equal(on_emulator(node, [x]), evaluate_fusion(node, [x]))


@needs_nvcc
def test_nan_comes_out_where_it_goes_in():
    ops = [primitive("Relu", 0), primitive("Max", 2, 1), primitive("Clip", 3, low=-1.0, high=1.0)]
    node = fusion(ops, [(5,), (5,)], ["float32"] * 2)
    arrays = [np.array([np.nan, 1, -2, 3, 0.5], np.float32),
              np.array([0, np.nan, -1, 0.25, 0], np.float32)]  # fmt: skip
    got = on_emulator(node, arrays)
    np.testing.assert_array_equal(got, evaluate_fusion(node, arrays))
    assert np.isnan(got[:2]).all()


def test_walk_reads_what_numpy_broadcasts():
    for seed in range(200):
        check_walk(seed)


def check_walk(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 5, rng.integers(1, 6)).tolist())
    operands = []
    for _ in range(int(rng.integers(1, 4))):
        kept = [size if rng.random() < 0.6 else 1 for size in shape]
        operands.append(tuple(kept[int(rng.integers(0, len(kept))) if rng.random() < 0.3 else 0 :]))
    walk = Walk.over(shape, operands, 16)
    sizes = (*walk.outer, walk.rows, walk.row)
    assert np.prod(sizes) == np.prod(shape)
    places = np.indices(sizes).reshape(len(sizes), -1)
    for operand, strides in zip(operands, walk.strides, strict=True):
        flat = np.arange(np.prod(operand)).reshape(operand)
        expected = np.broadcast_to(flat, shape).reshape(-1)
        np.testing.assert_array_equal(np.tensordot(strides, places, 1), expected)
        assert strides[-1] in (0, 1)


def test_what_is_not_elementwise_is_left_to_tvm():
    gate = EXACT["gate"]
    assert element_formula(gate) is not None
    softmax = fusion([primitive("Softmax", 0, axis=1)], [(3, 8)], ["float32"])
    assert element_formula(softmax) is None
    wide = fusion([primitive("Cast", 0)], [(3, 8)], ["int32"])
    assert element_formula(wide) is None
    integers = fusion([primitive("Relu", 0, dtype="int8")], [(3, 8)], ["int8"])
    assert element_formula(integers) is None
    assert element_formula(dataclasses.replace(gate, output_shape=(2, 5, 7, 1, 48))) is None


@needs_nvcc
@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
@pytest.mark.parametrize("name", ["gate of many pixels", "unary"])
def test_compiles_without_spills(name, arch):
    target = parse_target(f"cuda:{arch}")
    kernel = compile_kernel(fusion_prim_func({**EXACT, **CLOSE}[name], target), target)
    assert kernel.spill_bytes == 0


@pytest.mark.gpu
@pytest.mark.parametrize("name", [*EXACT, *CLOSE])
def test_agrees_with_numpy_on_gpu(name):
    node, target = {**EXACT, **CLOSE}[name], gpu_target()
    machine_code = compile_kernel(fusion_prim_func(node, target), target)
    end_if_compile_only()
    arrays = inputs_of(node)
    expected = evaluate_fusion(node, arrays)
    assert_agrees(name, run_function_on_gpu(machine_code, [*arrays, *node.constants], expected),
                  expected)  # fmt: skip


def test_a_product_stands_for_a_division_where_every_pair_of_bytes_agrees():
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(20):
        scales = rng.uniform(0.002, 0.05, 3)
        node = fusion(
            [primitive("dequantize", 0, scale=float(scales[0]), zero_point=3),
             primitive("dequantize", 1, scale=float(scales[1]), zero_point=128),
             primitive("Mul", 2, 3), quantize(4, "uint8", float(scales[2] / 10))],
            [(256, 1), (256,)], ["int8", "uint8"],
        )  # fmt: skip
        factor = exact_reciprocal(node)
        if factor is None:
            continue
        found += 1
        every = [np.arange(256).astype("int8")[:, None], np.arange(256).astype("uint8")]
        last = node.primitives[-1]
        x = (
            evaluate_fusion(dataclasses.replace(node, primitives=node.primitives[:-1]), every)
            * factor
        )
        got = np.clip(np.rint(x), last["low"], last["high"]) + last["zero_point"]
        np.testing.assert_array_equal(got, evaluate_fusion(node, every))
    assert found > 10


def test_no_product_stands_for_a_division_of_other_inputs():
    floats = fusion([quantize(0)], [(8,)], ["float32"])
    sigmoid = [
        primitive("dequantize", 0, scale=0.1, zero_point=0),
        primitive("Sigmoid", 1),
        quantize(2),
    ]
    assert exact_reciprocal(floats) is None
    assert exact_reciprocal(fusion(sigmoid, [(8,)], ["int8"])) is None
    assert exact_reciprocal(EXACT["twice the same"]) is None
