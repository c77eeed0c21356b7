"""What callers of the Python API give by mistake: an AutoqError that says what, never another."""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import onnx
import pytest
from onnx_models.makers import model, node

import autoq
from autoq.errors import AutoqError, InputError
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.pool2d import Pool2d

CONV = Conv2d(n=1, h=6, w=6, c=4, k=8, r=3, s=3)
POOL = Pool2d("max", 1, 6, 6, 4, 2, 2)
GEMM = Gemm(8, 16, 32)
EYE = np.eye(32, dtype=np.float32)
WORKLOADS = {
    "no rows": (GEMM, {"m": 0}, "m = 0; extents are at least 1"),
    "negative columns": (GEMM, {"n": -1}, "n = -1; an integer from 0 on"),
    "half a row": (GEMM, {"m": 1.5}, "m = 1.5; an integer"),
    "a row in words": (GEMM, {"m": "4"}, "m = '4'; an integer"),
    "a flag": (GEMM, {"m": True}, "m = True; an integer"),
    "a number of numpy": (GEMM, {"m": np.int64(4)}, "m = .*4.*; an integer"),
    "unknown dtype": (GEMM, {"in_dtype": "int7"}, "in_dtype 'int7': one of int4"),
    "dtype of no product": (GEMM, {"weight_dtype": "float16"}, "weight_dtype 'float16'"),
    "floats times integers": (GEMM, {"in_dtype": "float32"}, "float32 times int8"),
    "no epilogue": (GEMM, {"epilogue": None}, "epilogue = None; Epilogue is expected"),
    "groups": (GEMM, {"epilogue": Epilogue("float16", scale_group=5)}, "groups of 5 do not"),
    "no image": (CONV, {"n": 0}, "n = 0"),
    "no step": (CONV, {"stride": (0, 1)}, r"stride = \(0, 1\); extents"),
    "a list": (CONV, {"stride": [1, 1]}, r"stride = \[1, 1\]"),
    "three steps": (CONV, {"stride": (1, 1, 1)}, "stride = "),
    "large filter": (CONV, {"r": 9}, "smaller than the filter"),
    "groups of channels": (CONV, {"groups": 3}, "groups must divide"),
    "no step of a pool": (POOL, {"stride": (1, 0)}, "stride = "),
    "large window": (POOL, {"r": 9}, "smaller than the window"),
    "unknown pool": (POOL, {"kind": "median"}, "kind = 'median'"),
    "no batch": (FloatGemm(8, 16, 32), {"batch": 0}, "batch = 0"),
    "negative group": (FloatGemm(8, 16, 32), {"group": -8}, "group = -8"),
    "unknown activation": (Epilogue("float16"), {"activation": "tanh"}, "'tanh'"),
    "negative group of scales": (Epilogue("float16"), {"scale_group": -2}, "scale_group = -2"),
}


@pytest.mark.parametrize("case", WORKLOADS)
def test_workloads(case):
    whole, changes, message = WORKLOADS[case]
    with pytest.raises(AutoqError, match=message):
        dataclasses.replace(whole, **changes)


TUNE = {
    "trials": ("5", 1.5, True, None), "timeout": ("x", float("inf"), 1e12),
    "time_budget": ("5", float("nan"), 1e12), "seed": ("a", 1.5), "jobs": ("2", 1.5, 10**5),
    "tasks": (3,), "repeat": ("x",), "number": (1.5,), "device": ("x",), "layouts": (3,),
    "registry": (3,), "tuner": (None, ["random"]), "early_stopping": ("x",), "target": (3, None),
    "output": (3,), "tuning_records": (3, [3]), "started": ("x",), "cold": (1,),
    "model": (None, 3, [3], ["x"], [GEMM, 3]),
}  # fmt: skip


@pytest.mark.parametrize("option", TUNE)
def test_tuning(option, tmp_path):
    usual = {"model": [GEMM], "target": "cpu", "output": tmp_path / "x.jsonl", "trials": 1}
    for value in TUNE[option]:
        with pytest.raises(AutoqError):
            autoq.tune(**{**usual, option: value})
    assert not list(tmp_path.iterdir())


COMPILE = {
    "model": (3, None, b"x", [GEMM]), "target": (3,), "output": (3,), "jobs": ("x", 0, 1.5),
    "registry": (3,), "tuning_records": (3, [3]),
    "input_shapes": (3, {"x": 3}, {"x": ["a", 3]}, {"x": [2, 32.5]}, {3: [1]}),
}  # fmt: skip


@pytest.mark.parametrize("option", COMPILE)
def test_compiling(option, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(model([node("Relu", "x")], {"x": ((2, 32), "float32")}), path)
    usual = {"model": path, "target": "cpu", "output": tmp_path / "made.autoq"}
    for value in COMPILE[option]:
        with pytest.raises(AutoqError):
            autoq.compile(**{**usual, option: value})
    assert list(tmp_path.iterdir()) == [path]


PRECISION = {
    "precision": ("residual16", 8, ""), "threshold": (-1, float("nan"), "1"),
    "tolerance": (0, 1.0, float("nan"), "x"),
}  # fmt: skip


@pytest.mark.parametrize("option", PRECISION)
def test_precisions(option, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(model([node("MatMul", "x w")], {"x": ((2, 32), "float32")}, {"w": EYE}), path)
    usual = {"model": path, "target": "cpu", "output": tmp_path / "made"}
    asked = {**usual, "precision": "residual8"}
    for value in PRECISION[option]:
        for verb in (autoq.compile, partial(autoq.tune, trials=1)):
            with pytest.raises(InputError, match=option):
                verb(**{**asked, option: value})
    for values in ({"threshold": 1.0, "tolerance": 0.1}, {"precision": None, "threshold": 1.0}):
        with pytest.raises(InputError):
            autoq.compile(**{**asked, **values})
    with pytest.raises(InputError, match="workloads say their own"):
        autoq.tune(**{**asked, "model": [GEMM]}, trials=1)
    assert list(tmp_path.iterdir()) == [path]


RESIDUAL = {
    "bits": (16, 8.0, True, None), "threshold": (-1, float("nan"), "x"),
    "tolerance": (0, -1, 1.5, float("nan"), "x"), "crossover": (-0.1, float("nan"), "x"),
    "correction": ("half", 3, []), "target": (3, "quantum"), "seed": (-1, 1.5, "x"),
    "count": (1, 0), "tuning_records": (3, [3]), "cache_dir": (3,), "check_finite": (1,),
    "a": (None, 3, [[1.0]], EYE.astype("f8"), EYE[0], EYE[:, :5], EYE[:0], EYE[None, None, :, :5]),
    "b": (None, EYE.astype("f2"), EYE[0], EYE[:5], EYE[:, :0], EYE[None]),
    "unheard_of": (1,),
}  # fmt: skip


@pytest.mark.parametrize("option", RESIDUAL)
def test_residual_products(option):
    for value in RESIDUAL[option]:
        with pytest.raises(AutoqError):
            autoq.residual_matmul(**{"a": EYE, "b": EYE, "target": "cpu", option: value})


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_residual_products_of_no_numbers(wrong):
    holed = EYE.copy()
    holed[3, 4] = wrong
    for name, matrices in (("a", (holed, EYE)), ("b", (EYE, holed.T))):
        with pytest.raises(InputError, match=f"{name} has NaN or infinite values"):
            autoq.residual_matmul(*matrices, target="cpu")


def test_residual_products_that_are_too_long_or_asked_for_twice():
    a = np.ones((1, 66573), np.float32)
    with pytest.raises(InputError, match="k = 66573: sums of at most 66572 products"):
        autoq.residual_matmul(a, a.T, target="cpu")
    for chosen in ({"correction": "full"}, {"threshold": 1.0}, {"count": 3}):
        with pytest.raises(InputError, match=f"{next(iter(chosen))} .*: a tolerance chooses it"):
            autoq.residual_matmul(EYE, EYE, tolerance=0.1, target="cpu", **chosen)
    for chosen in ({"threshold": 1.0}, {"crossover": 0.5}, {"count": 3}):
        with pytest.raises(InputError, match=f"{next(iter(chosen))} is of"):
            autoq.residual_matmul(EYE, EYE, correction="full", target="cpu", **chosen)


OPERATOR = {
    "workload": (3, None), "target": (3,), "tuning_records": (3,), "registry": (3,),
    "constants": (3, [1], {"x_zero_point": "x"}, {"x_zero_point": 1.5}, {"weight": None},
                  {"weight": [[1], [1, 2]]}),
}  # fmt: skip


@pytest.mark.parametrize("option", OPERATOR)
def test_one_operator(option):
    _, constants = GEMM.random_case(np.random.default_rng(0))
    usual = {"workload": GEMM, "target": "cpu", "constants": constants}
    for value in OPERATOR[option]:
        value = {**constants, **value} if isinstance(value, dict) else value
        with pytest.raises(AutoqError):
            autoq.operator(**{**usual, option: value})
