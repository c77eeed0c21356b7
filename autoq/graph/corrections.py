"""For each layer that is computed through integers, the cheapest correction within a tolerance."""

from __future__ import annotations

import dataclasses

import numpy as np

from autoq.errors import InputError
from autoq.graph.evaluate import evaluate
from autoq.graph.ir import Graph, Layer
from autoq.graph.precision import Precision
from autoq.residual.crossover import default_crossover
from autoq.residual.search import cheapest_within
from autoq.residual.setting import Setting, generator
from autoq.templates.target import Target


def choose_corrections(graph: Graph, target: Target, precision: Precision) -> None:
    """Give each layer that has a precision the cheapest correction within the tolerance.

    What a layer reads is that of a run of the model in numpy, on normal random numbers for floats
    and zeros for integers: the tolerance holds for these, layer by layer, and the model's own error
    is that of its layers together. Raises InputError, which names the layer, where even the full
    correction loses more.
    """
    rng = generator(0)
    tolerance = float(precision.tolerance or 0)

    def choose(layer: Layer, inputs: list[np.ndarray]) -> None:
        if not layer.precision:
            return
        (a,), b = inputs, np.asarray(layer.constants["b"])
        kept = {name: value for name, value in layer.constants.items() if name in ("b", "bias")}
        bias = kept.get("bias", np.float32(0))

        def compute(setting: Setting) -> np.ndarray:
            layer.workload = dataclasses.replace(layer.workload, correction=setting.correction)
            layer.constants = {**kept, **setting.constants}
            layer.precision = str(setting)
            return layer.workload.reference([a], layer.constants)[0] - bias

        sparse = Setting(precision.bits, "sparse", 0.0, default_crossover(target))
        try:
            cheapest_within(a, b.T, sparse, tolerance, compute, rng)
        except InputError as error:
            raise InputError(f"layer {layer.name!r}: {error}") from error

    evaluate(graph, _random_feeds(graph, rng), choose)


def _random_feeds(graph: Graph, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Inputs of the graph: normal random numbers for floats, zeros for integers."""
    feeds = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        zeros = np.zeros(tensor.shape, tensor.value_dtype)
        floats = zeros.dtype.kind not in "iub"
        feeds[name] = rng.standard_normal(tensor.shape).astype(zeros.dtype) if floats else zeros
    return feeds
