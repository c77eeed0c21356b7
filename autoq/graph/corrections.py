"""For each product through integers, the cheapest correction within a tolerance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.errors import InputError
from autoq.graph.evaluate import evaluate
from autoq.graph.ir import Graph, Layer, Primitive
from autoq.graph.precision import Precision
from autoq.graph.primitive_numpy import PRIMITIVES
from autoq.residual.search import cheapest_within
from autoq.residual.setting import Setting, generator
from autoq.templates.operators.residual_gemm import ResidualGemm, longest_sum
from autoq.templates.oracle.residual_quantisation import compensated, quantise


def chosen_settings(floats: Graph, precision: Precision, crossover: float) -> dict[str, Setting]:
    """By name, the cheapest setting within a precision's tolerance of each product of constants.

    floats is the optimised graph of the model in float32. What a layer reads is that of a run of it
    in numpy, on normal random numbers for floats and zeros for integers: the tolerance holds for
    these, layer by layer, and the model's own error comes of all layers together. Products of
    matrices choose among all corrections, convolutions between none and the full one. Raises
    InputError, which names the layer, where even the full correction loses more.
    """
    rng = generator(0)
    settings: dict[str, Setting] = {}

    def choose(layer: Layer, inputs: list[np.ndarray]) -> None:
        weight = np.asarray(layer.constants.get("weight", 0))
        x = inputs[0]
        if weight.dtype != np.float32 or x.dtype != np.float32 or weight.ndim not in (2, 4):
            return
        if weight.shape[-1] != x.shape[-1] or weight[0].size > longest_sum(precision.bits):
            return
        rows = _Rows.of(layer, x, weight)
        start = Setting(precision.bits, "sparse", 0.0, 0.0 if rows.overlap else crossover)
        tolerance = float(precision.tolerance or 0)
        try:
            found = cheapest_within(rows.a, rows.b, start, tolerance, rows.product, rng)
        except InputError as error:
            raise InputError(f"layer {layer.name!r}: {error}") from error
        settings[layer.name] = found.candidate.setting

    evaluate(floats, _random_feeds(floats, rng), choose)
    return settings


@dataclass(frozen=True)
class _Rows:
    """What a layer multiplies: rows a [m, k] of an input x, and b [k, n].

    windows: of a convolution whose rows are not the pixels of the image in their order, the
    attributes of an operation Windows over x [n, h, w, c]; None for any other layer.
    """

    x: np.ndarray
    b: np.ndarray
    windows: dict[str, Any] | None

    @classmethod
    def of(cls, layer: Layer, x: np.ndarray, weight: np.ndarray) -> _Rows:
        """Those of a layer with weights [n, k] or [n, r, s, c]."""
        windows, workload = None, layer.workload
        if weight.ndim == 4:
            windows = {
                "axis": 3, "window": weight.shape[1:3], "strides": workload.stride,
                "dilations": workload.dilation, "pads": workload.padding,
            }  # fmt: skip
            sizes = (*windows["window"], *workload.stride)
            if not any(workload.padding) and all(size == 1 for size in sizes):
                windows = None
        return cls(x, weight.reshape(len(weight), -1).T, windows)

    @property
    def overlap(self) -> bool:
        return self.windows is not None

    @property
    def a(self) -> np.ndarray:
        return self._unrolled(self.x)

    def product(self, setting: Setting) -> np.ndarray:
        """The product under a setting; of overlapping rows an image has one scale."""
        if setting.correction == "sparse":
            a = self.a
            workload = ResidualGemm(len(a), self.b.shape[1], len(self.b), setting.bits)
            return workload.reference([a, self.b], setting.constants)[0]
        apart = len(self.x) if self.overlap else self.x.size // self.x.shape[-1]
        left = quantise(self.x.reshape(apart, -1), setting.bits, axis=1)
        right = quantise(self.b, setting.bits, axis=0)
        values, residual = (
            self._unrolled(array.reshape(self.x.shape).astype(np.float64))
            for array in (left.values, left.residual)
        )
        sums, correction = values @ right.values.astype(np.float64), None
        if setting.correction == "full":
            finer = right.residual.astype(np.float64)
            correction = values @ finer + residual @ right.values.astype(np.float64)
        scale = np.repeat(left.scale, len(sums) // apart, axis=0)
        return compensated(sums, correction, scale, right.scale, setting.bits)

    def _unrolled(self, x: np.ndarray) -> np.ndarray:
        if self.windows is not None:
            attributes = tuple(sorted(self.windows.items()))
            x = PRIMITIVES["Windows"](Primitive("Windows", (0,), str(x.dtype), attributes), x)
        return x.reshape(-1, x.shape[-1])


def _random_feeds(graph: Graph, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Inputs of the graph: normal random numbers for floats, zeros for integers."""
    feeds = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        zeros = np.zeros(tensor.shape, tensor.value_dtype)
        floats = zeros.dtype.kind not in "iub"
        feeds[name] = rng.standard_normal(tensor.shape).astype(zeros.dtype) if floats else zeros
    return feeds
