"""Products with weights of random extents, odd ones among them, dtypes and epilogues."""

from __future__ import annotations

import numpy as np

from autoq.templates.epilogue import ACTIVATIONS, Epilogue
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm

_FLOATS = ("float16", "bfloat16")
_BYTES = ("int8", "uint8")


def _extents(rng: np.random.Generator) -> tuple[int, int, int]:
    """Rows of x, of weights, and values of k: of half the products vectors are whole."""
    m, n, k = (int(rng.integers(1, most)) for most in (400, 400, 600))
    return (m, n, k) if rng.random() < 0.5 else (m, -(-n // 8) * 8, -(-k // 16) * 16)


def random_gemm(rng: np.random.Generator) -> Gemm:
    """A product of integers."""
    m, n, k = _extents(rng)
    x, weight = (("int8", "int8"), ("uint8", "int8"), ("int4", "int4"))[int(rng.integers(3))]
    out, floats = str(rng.choice(_BYTES)), str(rng.choice((*_FLOATS, "float32")))
    activation, residual = str(rng.choice(ACTIVATIONS)), str(rng.choice((*_BYTES, "float16")))
    epilogues = [
        Epilogue("int32"),
        Epilogue(out),
        Epilogue(out, residual, residual != "float16"),
        Epilogue(out, row_scale=True, float_bias=True),
        Epilogue(floats, activation=activation, float_bias=bool(rng.integers(2))),
        Epilogue(floats, floats, row_scale=True, activation=activation),
        Epilogue(out, uniform=True),
    ]
    if k % 32 == 0:
        epilogues.append(Epilogue(floats, scale_group=32, row_scale=True))
    return Gemm(m, n, k, x, weight, epilogues[int(rng.integers(len(epilogues)))])


def random_float_gemm(rng: np.random.Generator) -> FloatGemm:
    """A product of 16-bit floats with weights of 8 or 4 bits or their own type."""
    m, n, k = _extents(rng)
    floats = str(rng.choice(_FLOATS))
    weight = str(rng.choice((*_BYTES, "int4", "uint4", floats)))
    group = int(rng.choice((0, 32, 64, 128))) if weight != floats else 0
    k = -(-k // group) * group if group else k
    return FloatGemm(
        m, n, k, floats, weight, str(rng.choice((floats, "float32"))), group,
        zero_points=weight != floats and bool(rng.integers(2)), bias=bool(rng.integers(2)),
        activation=str(rng.choice(ACTIVATIONS)), weight_left=bool(rng.integers(2)),
        residual=rng.random() < 0.25,
    )  # fmt: skip
