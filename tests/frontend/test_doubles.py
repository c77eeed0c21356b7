"""float64 in models of float16: normalisations as torch's older exporter writes them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto
from onnx_models.makers import model, node
from qdq.oracle import run_in_memory

from autoq.errors import ModelError
from autoq.frontend import from_model
from autoq.graph import evaluate, optimise
from autoq.templates.target import parse_target

SQUARE = [
    node("Cast", "x", "d", to=TensorProto.DOUBLE),
    node("Pow", "d two", "s"),
    node("ReduceMean", "s", "m", axes=[-1]),
    node("Add", "m e", "v"),
    node("Div", "d v", "q"),
]
CONSTANTS = {"two": np.float64(2), "e": np.float64(1e-5)}


def _normalised(dtype: str = "float16", back: bool = True):
    nodes = [*SQUARE, *([node("Cast", "q", "y", to=TensorProto.FLOAT16)] if back else [])]
    return model(nodes, {"x": ((3, 20), dtype)}, CONSTANTS, ("y" if back else "q",))


@pytest.mark.parametrize("target", ["cuda:sm_90a", "cpu"])
def test_what_float16_is_cast_to_is_computed_in_float32(target):
    made = _normalised()
    feeds = {"x": np.random.default_rng(0).standard_normal((3, 20)).astype(np.float16)}
    found = evaluate(optimise(from_model(made), parse_target(target)), feeds)["y"]
    wanted = run_in_memory(made, feeds)["y"]
    np.testing.assert_allclose(found, wanted, rtol=1e-3, strict=True)


@pytest.mark.parametrize(
    "made, message",
    [
        (_normalised("float32"), r"float32 to float64; casts"),
        (_normalised(back=False), "output 'q' of float64; cast it to float32"),
    ],
)
def test_other_doubles_are_refused(made, message):
    with pytest.raises(ModelError, match=message):
        from_model(made)
