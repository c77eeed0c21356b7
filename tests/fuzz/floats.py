"""Random float32 networks through integers: about what onnxruntime gives, by precision.

Most cases are optimised for both targets and computed in numpy, kernel by kernel; one in twelve is
compiled for this CPU and run.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx_models.float_networks import random_network
from qdq.oracle import run_in_memory

import autoq
from autoq.errors import InputError
from autoq.frontend import from_model
from autoq.graph import evaluate, optimise
from autoq.graph.precision import make_precision
from autoq.templates.target import parse_target

LIMIT_SECONDS = 120
COMPILED_SHARE = 1 / 12

PRECISIONS: list[tuple[str, float | None, float | None, float]] = [
    ("residual8", 0.0, None, 2e-3),
    ("residual8", 0.3, None, 0.1),
    ("residual8", np.inf, None, 0.3),
    ("residual8", None, 1e-3, 1e-2),
    ("residual4", 0.0, None, 0.5),
]
"""Name, threshold, tolerance, and the relative error that networks of some layers stay below."""


def case(rng: np.random.Generator, folder: Path, compiled_share: float = COMPILED_SHARE) -> None:
    """One network under one precision."""
    made, x = random_network(rng)
    name, threshold, tolerance, most = PRECISIONS[int(rng.integers(len(PRECISIONS)))]
    (exact,) = run_in_memory(made, {"x": x}).values()
    found = {}
    try:
        for kind in ("cpu", "cuda"):
            precision = make_precision(name, threshold, tolerance)
            graph = optimise(from_model(made), parse_target(kind), precision=precision)
            found[kind] = evaluate(graph, {"x": x})["y"]
        if rng.random() < compiled_share:
            onnx.save(made, folder / "floats.onnx")
            asked = {"precision": name, "threshold": threshold, "tolerance": tolerance}
            path = folder / "floats.autoq"
            autoq.compile(folder / "floats.onnx", target="cpu", output=path, jobs=1, **asked)
            (found["compiled"],) = autoq.Session(path).run(None, {"x": x})
    except InputError:
        if tolerance is None:
            raise AssertionError(f"{name} at {threshold} is refused") from None
        return  # a layer whose tolerance cannot be kept
    for kind, y in found.items():
        error = float(np.linalg.norm(y - exact) / max(float(np.linalg.norm(exact)), 1e-30))
        assert error < most, f"{kind}: {name}, {threshold}, {tolerance}: off by {error:.3g}"
