"""Random quantised graphs: every element of every output is what onnxruntime gives.

Most cases are optimised for both targets and computed in numpy, kernel by kernel, with random
layouts of activations where the target is a GPU; one in twelve is compiled for this CPU and run.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from qdq.oracle import Oracle, normal_feeds
from qdq.random_graphs import random_model

import autoq
from autoq.frontend import from_model
from autoq.graph import evaluate, optimise
from autoq.graph.lowering.layouts import choose_layouts
from autoq.templates.target import parse_target
from autoq.templates.workload import Workload

LIMIT_SECONDS = 120
COMPILED_SHARE = 1 / 12
MATRICES_SHARE = 1 / 3


class RandomCosts:
    """Times of kernels drawn at random, so that any layout may be the best one."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._seconds: dict[Workload, float] = {}

    def seconds(self, workload: Workload) -> float:
        """The same time for a workload each time."""
        return self._seconds.setdefault(workload, float(self._rng.random()))

    def copying_seconds(self, copy: Workload) -> float:
        """The same time for a copy between layouts each time."""
        return self.seconds(copy)


def case(
    rng: np.random.Generator,
    folder: Path,
    compiled_share: float = COMPILED_SHARE,
    blocks: bool = False,
) -> None:
    """One graph; blocks: as in `random_model`."""
    kind = float(rng.random())
    matrices = kind % 0.5 < MATRICES_SHARE / 2
    model = random_model(rng, exact=kind < 0.5, matrices=matrices, blocks=blocks)
    feeds = normal_feeds(model, rng)
    oracle = Oracle(model, feeds)
    for kind in ("cpu", "cuda"):
        graph = optimise(from_model(model), parse_target(kind))
        if kind == "cuda":
            graph = choose_layouts(graph, RandomCosts(rng))
        complaint = oracle.complaint(evaluate(graph, feeds))
        assert not complaint, f"{kind}: {complaint}"
    if rng.random() < compiled_share:
        complaint = oracle.complaint(_compiled(model, feeds, folder))
        assert not complaint, f"compiled: {complaint}"


def _compiled(
    model: onnx.ModelProto, feeds: dict[str, np.ndarray], folder: Path
) -> dict[str, np.ndarray]:
    onnx.save(model, folder / "random.onnx")
    autoq.compile(folder / "random.onnx", target="cpu", output=folder / "random.autoq", jobs=1)
    names = [value.name for value in model.graph.output]
    results = autoq.Session(folder / "random.autoq").run(names, feeds)
    return dict(zip(names, results, strict=True))
