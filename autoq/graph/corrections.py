"""For each product through integers, the cheapest correction within a tolerance."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.errors import InputError
from autoq.graph.evaluate import evaluate
from autoq.graph.ir import Graph, Layer, Primitive
from autoq.graph.precision import ResidualPrecision
from autoq.graph.primitive_numpy import PRIMITIVES
from autoq.residual.candidates import (
    SAMPLED_VECTORS,
    Block,
    Candidate,
    for_convolution,
    in_order_of_cost,
)
from autoq.residual.crossover import default_crossover
from autoq.residual.search import cheapest_within
from autoq.residual.setting import Setting, generator
from autoq.templates.operators.residual_gemm import ResidualGemm, longest_sum
from autoq.templates.oracle.residual_quantisation import Quantised, compensated, quantise
from autoq.templates.target import Target

_WINDOW_BYTES = 8
"""Bytes moved for a value of a window in float32, which is written once and read once."""

_OPERATIONS_A_BYTE = 90
"""What is assumed where a target's rates are unknown: 0.63 TOPS and 7 GB/s of a core with
AVX512-VNNI."""


def chosen_settings(
    floats: Graph, precision: ResidualPrecision, target: Target
) -> dict[str, Setting]:
    """By name, the cheapest setting within a precision's tolerance of each product of constants.

    floats is the optimised graph of the model in float32. What a layer reads is that of a run of it
    in numpy, on normal random numbers for floats and zeros for integers: the tolerance holds for
    these, layer by layer, and the model's own error comes of all layers together. Convolutions may
    also take back the residual of one factor alone, and choose the sparse correction only where it
    is worth writing the windows of their pixels. Raises InputError, which names the layer, where
    even the full correction loses more.
    """
    rng = generator(0)
    bits = precision.bits
    settings: dict[str, Setting] = {}

    def choose(layer: Layer, inputs: list[np.ndarray]) -> None:
        weight = np.asarray(layer.constants.get("weight", 0))
        x = inputs[0]
        if weight.dtype != np.float32 or x.dtype != np.float32 or weight.ndim not in (2, 4):
            return
        if weight.shape[-1] != x.shape[-1] or weight[0].size > longest_sum(bits):
            return
        rows = _Rows.of(layer, x, weight)
        sparse = Setting(bits, "sparse", 0.0, default_crossover(target))
        tolerance = float(precision.tolerance or 0)
        candidates = rows.candidates(sparse, tolerance, target, rng)
        try:
            found = cheapest_within(rows.a, rows.b, candidates, tolerance, rows.product, rng)
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

    @functools.cached_property
    def a(self) -> np.ndarray:
        return self._unrolled(self.x)

    def candidates(
        self, sparse: Setting, goal: float, target: Target, rng: np.random.Generator
    ) -> Iterator[Candidate]:
        """Settings that may keep a relative error, by their cost on the target."""
        windows = Block.drawn(self.a, self.b, sparse.bits, rng)
        if not self.overlap:
            return in_order_of_cost(windows, sparse, goal)
        rows = rng.permutation(len(self.a))[:SAMPLED_VECTORS]
        columns = rng.permutation(self.b.shape[1])[:SAMPLED_VECTORS]
        left, right = self._quantised(sparse.bits)
        left = Quantised(*(array[rows] for array in (left.values, left.residual, left.scale)))
        right = Quantised(
            *(array[:, columns] for array in (right.values, right.residual, right.scale))
        )
        images = Block(self.a[rows], self.b[:, columns], left, right, sparse.bits)
        cost = windows_cost(self.b.shape[1], target)
        return for_convolution(images, windows, sparse, cost, goal)

    def product(self, setting: Setting) -> np.ndarray:
        """The product under a setting; of overlapping rows an image has one scale."""
        if setting.correction == "sparse":
            a = self.a
            workload = ResidualGemm(len(a), self.b.shape[1], len(self.b), setting.bits)
            return workload.reference([a, self.b], setting.constants)[0]
        left, right = self._quantised(setting.bits)
        values, filters = left.values.astype(np.float64), right.values.astype(np.float64)
        corrections = []
        if setting.correction in ("full", "weights"):
            corrections.append(values @ right.residual.astype(np.float64))
        if setting.correction in ("full", "activations"):
            corrections.append(left.residual.astype(np.float64) @ filters)
        correction = sum(corrections[1:], corrections[0]) if corrections else None
        return compensated(values @ filters, correction, left.scale, right.scale, setting.bits)

    def _quantised(self, bits: int) -> tuple[Quantised, Quantised]:
        """a and b in integers, a scale for each column, and for each image or row of a."""
        apart = len(self.x) if self.overlap else self.x.size // self.x.shape[-1]
        left = quantise(self.x.reshape(apart, -1), bits, axis=1)
        values, residual = (
            self._unrolled(array.reshape(self.x.shape)) for array in (left.values, left.residual)
        )
        scale = np.repeat(left.scale, len(values) // apart, axis=0)
        return Quantised(values, residual, scale), quantise(self.b, bits, axis=0)

    def _unrolled(self, x: np.ndarray) -> np.ndarray:
        if self.windows is not None:
            attributes = tuple(sorted(self.windows.items()))
            x = PRIMITIVES["Windows"](Primitive("Windows", (0,), str(x.dtype), attributes), x)
        return x.reshape(-1, x.shape[-1])


def windows_cost(filters: int, target: Target) -> float:
    """What writing and reading a value of a window costs, in its products with so many filters."""
    rate = target.rate("int8")
    ratio = rate / target.memory_rate if rate and target.memory_rate else _OPERATIONS_A_BYTE
    return _WINDOW_BYTES * ratio / (2 * filters)


def _random_feeds(graph: Graph, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Inputs of the graph: normal random numbers for floats, zeros for integers."""
    feeds = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        zeros = np.zeros(tensor.shape, tensor.value_dtype)
        floats = zeros.dtype.kind not in "iub"
        feeds[name] = rng.standard_normal(tensor.shape).astype(zeros.dtype) if floats else zeros
    return feeds
