"""Models of conditions and choices by them, and of reductions."""

from __future__ import annotations

import numpy as np

from onnx_models.makers import model, node

SHAPE = (3, 4, 2, 5)


def _two(*nodes, dtype: str = "float32"):
    """Nodes over two tensors that broadcast."""
    return model(list(nodes), {"x": (SHAPE, dtype), "z": (SHAPE[1:], dtype)})


def _conditions(dtype: str):
    """Every comparison of two tensors, and the logic of their results."""
    parts = [
        node("Equal", "x z", "a"), node("Less", "x z", "b"), node("LessOrEqual", "z x", "c"),
        node("GreaterOrEqual", "x x", "d"), node("Or", "a b", "e"), node("And", "c d", "f"),
        node("Xor", "e f", "g"), node("Not", "g", "h"), node("Where", "h x z"),
    ]  # fmt: skip
    return _two(*parts, dtype=dtype)


def _reduced(op: str, dtype: str = "float32", opset: int = 17, **attributes: object):
    return model([node(op, "x", **attributes)], {"x": (SHAPE, dtype)}, opset=opset)


CONDITIONS = {
    "conditions": _conditions("float32"),
    "conditions_of_integers": _conditions("int64"),
    "condition_is_an_output": _two(node("Greater", "x z")),
    "condition_is_an_input": model(
        [node("Cast", "c", "f", to=1), node("Where", "c f z")],
        {"c": ((4, 5), "bool"), "z": ((5,), "float32")},
    ),
    "not_a_number": model(
        [node("Sqrt", "x", "r"), node("IsNaN", "r", "n"), node("Div", "x o", "i"),
         node("IsInf", "i", "s", detect_negative=0), node("Where", "n o r", "a"),
         node("Where", "s a x"), node("IsInf", "i", "u"), node("Cast", "u", "v", to=1)],
        {"x": (SHAPE, "float32")}, {"o": np.float32(0)}, ("y", "v"),
    ),
    "casts": model(
        [node("Cast", "x", "b", to=9), node("Cast", "b", "i", to=7), node("Cast", "x", "j", to=7),
         node("Add", "i j", "k"), node("Mul", "k c", "y"), node("CastLike", "y b", "z")],
        {"x": (SHAPE, "float32")}, {"c": np.int64([3])}, ("y", "z"),
    ),
}  # fmt: skip

REDUCTIONS = {
    **{
        op: _reduced(op, axes=[1, 3])
        for op in ("ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare",
                   "ReduceLogSumExp")
    },
    "reduce_log_sum": model(
        [node("Exp", "x", "e"), node("ReduceLogSum", "e", axes=[2], keepdims=0)],
        {"x": (SHAPE, "float32")},
    ),
    "reduce_sum": model([node("ReduceSum", "x a")], {"x": (SHAPE, "float32")},
                        {"a": np.int64([-1, 0])}),
    "reduce_sum_of_integers": _reduced("ReduceSum", "int64"),
    "reduce_integers": model(
        [node("ReduceMin", "x", "a", axes=[3]), node("ReduceMax", "x", "b"), node("Add", "a b")],
        {"x": (SHAPE, "int64")},
    ),
    "arg_max": _reduced("ArgMax", axis=1, keepdims=0),
    "arg_max_of_bytes": _reduced("ArgMax", "int8", axis=1, select_last_index=1),
    "arg_min_last": _reduced("ArgMin", "int64", axis=-1, select_last_index=1),
    "top_k": model([node("TopK", "x k", "y i", axis=1)], {"x": (SHAPE, "float32")},
                   {"k": np.array([2])}, ("y", "i")),
    "log_softmax": _reduced("LogSoftmax", axis=1),
    "log_softmax_old": _reduced("LogSoftmax", opset=11, axis=2),
    "running_sum": model([node("CumSum", "x a", exclusive=1, reverse=1)], {"x": (SHAPE, "float32")},
                         {"a": np.int64(1)}),
    "running_sum_of_integers": model([node("CumSum", "x a")], {"x": (SHAPE, "int64")},
                                     {"a": np.int64([-1])}),
}  # fmt: skip
