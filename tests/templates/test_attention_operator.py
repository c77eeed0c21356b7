"""Attention's meaning is that of the operations it stands for, as onnxruntime computes them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_models.makers import model, node
from qdq.oracle import run_in_memory

from autoq.errors import InputError
from autoq.templates.operators.attention import Attention
from autoq.templates.operators.attention_scalars import attention_scalars
from autoq.templates.oracle.reference import reference

RNG = np.random.default_rng(3)
BYTES = {f"{name}_dtype": "uint8" for name in ("q", "k", "v", "out")}


def test_bytes_are_rounded_where_a_quantised_model_rounds() -> None:
    """Equal but for shares beside a tie, which may move an output by a step."""
    work = Attention(2, 3, 19, 30, 8, **BYTES, mask_axes="bn", quantised_scores=True,
                     quantised_masked=True, y_order="blhd")  # fmt: skip
    steps = {"q": 0.05, "k": 0.04, "v": 0.03, "s": 0.02, "m": 0.025, "p": 1 / 256, "y": 0.01}
    zeros = {"q": 120, "k": 131, "v": 126, "s": 128, "m": 140, "p": 0, "y": 117}
    constants = {f"s{n}": np.float32(step) for n, step in steps.items()}
    constants |= {f"z{n}": np.uint8(zero) for n, zero in zeros.items()}

    def pair(name: str, real: str, quantised: str) -> list:
        taken = f"s{quantised} z{quantised}"
        return [node("QuantizeLinear", f"{name} {taken}", f"{name}_q"),
                node("DequantizeLinear", f"{name}_q {taken}", real)]  # fmt: skip

    nodes = [node("DequantizeLinear", f"{n} s{n} z{n}", f"{n}d") for n in "qkv"]
    nodes += [node("Transpose", "kd", "kt", perm=[0, 1, 3, 2]), node("MatMul", "qd kt", "s1"),
              *pair("s1", "s2", "s"), node("Add", "s2 mask", "m1"), *pair("m1", "m2", "m"),
              node("Softmax", "m2", "p1", axis=-1), *pair("p1", "p2", "p"),
              node("MatMul", "p2 vd", "y1"), node("Transpose", "y1", "y2", perm=[0, 2, 1, 3]),
              node("QuantizeLinear", "y2 sy zy", "y")]  # fmt: skip
    arrays = [RNG.integers(0, 256, spec.shape).astype(np.uint8) for spec in work.inputs[:3]]
    mask = np.where(RNG.random(work.mask_shape) < 0.3, -2.0, 0.0).astype(np.float32)
    shapes = {name: (array.shape, "uint8") for name, array in zip("qkv", arrays, strict=True)}
    made = model(nodes, {**shapes, "mask": (mask.shape, "float32")}, constants)
    expected = run_in_memory(made, {**dict(zip("qkv", arrays, strict=True)), "mask": mask})["y"]
    f = np.float32
    scalars = attention_scalars(
        scale=f(0.05) * f(0.04) / f(0.02), scores_low=-128, scores_high=127, scores_step=0.02,
        masked_low=-140, masked_high=115, masked_step=0.025, shares_most=255, shares_step=1 / 256,
        out_scale=f(1 / 256) * f(0.03) / f(0.01), low=-117, high=138, zero_point=117,
    )  # fmt: skip
    centres = {f"{name}_zero_point": zeros[name] for name in "qkv"}
    found = reference(work, (*arrays, mask), {"scalars": scalars, **centres})
    difference = np.abs(found.astype(int) - expected.astype(int))
    assert difference.max() <= 1 and (difference > 0).mean() < 0.01
    assert expected.std() > 5


def test_floats_see_what_is_not_masked() -> None:
    work = Attention(1, 2, 3, 5, 4, out_dtype="float32", causal=True)
    values, constants = work.random_case(RNG)
    whole = reference(work, values, constants)
    q, k, v = (array.copy() for array in values)
    k[:, :, 4], v[:, :, 4] = 100, 100  # the last key, which only the last query sees
    found = reference(work, (q, k, v), constants)
    np.testing.assert_array_equal(found[:, :, :2], whole[:, :, :2])
    assert np.all(found[:, :, 2] != whole[:, :, 2])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"q_order": "bhdl"}, "q_order"),
        ({"mask_axes": "m"}, "mask_axes"),
        ({"constant_mask": True}, "needs mask_axes"),
        ({"queries": 9, "causal": True}, "would see none"),
        ({"k_dtype": "bfloat16"}, "one type"),
        ({"out_dtype": "bfloat16"}, "float32"),
        ({"quantised_scores": True}, "not quantised"),
        ({**BYTES, "v_dtype": "float16"}, "int8 or uint8"),
        ({**BYTES, "out_dtype": "float16"}, "float32"),
        ({**BYTES, "quantised_masked": True}, "needs mask_axes"),
        ({**BYTES, "keys": 40000}, "32 bits"),
    ],
)  # fmt: skip
def test_what_it_refuses(changes: dict, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        Attention(**{"batch": 1, "heads": 1, "queries": 8, "keys": 8, "depth": 16, **changes})


def test_scales_of_floats_are_positive() -> None:
    work = Attention(1, 1, 2, 2, 8)
    with pytest.raises(InputError, match="positive"):
        work.check_constants({"scalars": attention_scalars(scale=-1)})
    with pytest.raises(InputError, match="unknown scalars"):
        attention_scalars(scales=1)
