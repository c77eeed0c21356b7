"""Features of configurations that mean the same for every workload, as columns by name."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from autoq.knowledge.balance import balance
from autoq.search.search_space import ESTIMATE
from autoq.search.space import Space
from autoq.templates.target import Target
from autoq.templates.workload import Workload

OF_THE_WORKLOAD = "workload."
"""What names of features begin with that are the same for all configurations of a workload."""

_TINY = 1e-12


def workload_features(workload: Workload, target: Target) -> dict[str, float]:
    """Numbers of a workload: its fields under their names, its work, and what the roofline says.

    Texts are columns of their own with the value 1; what counts work is a binary logarithm. rows,
    columns and depth are those of a product with as many outputs and operations, so that a
    convolution and a product of the same sizes look alike.
    """
    floor = target.roofline_seconds(workload.operations_by_dtype, workload.bytes)
    *others, columns = workload.in_nhwc.outputs[0].shape
    rows = math.prod(others)
    depth = workload.operations / max(2 * rows * columns, 1)
    found = {
        "workload.log2(rows)": math.log2(max(rows, 1)),
        "workload.log2(columns)": math.log2(max(columns, 1)),
        "workload.log2(depth)": math.log2(max(depth, 1)),
        "workload.log2(operations)": math.log2(max(workload.operations, 1)),
        "workload.log2(bytes)": math.log2(max(workload.bytes, 1)),
        "workload.log2(intensity)": math.log2(max(workload.operations, 1) / max(workload.bytes, 1)),
        "workload.log2(floor)": math.log2(max(floor, _TINY)),
        f"operator={workload.operator}": 1.0,
    }
    for name, value in _numbers(workload.key_fields(), "workload"):
        found[name] = value
    return found


def _numbers(value: Any, name: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for inner, item in value.items():
            yield from _numbers(item, f"{name}.{inner}")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _numbers(item, f"{name}.{index}")
    elif isinstance(value, (bool, int, float)):
        yield name, float(value)
    elif value is not None:
        yield f"{name}={value}", 1.0


class Columns:
    """The columns of a model, in its order; a matrix has what is known and NaN elsewhere."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._at = {name: i for i, name in enumerate(self.names)}

    def matrix(
        self,
        workload: Workload,
        template: str,
        space: Space[Any],
        codes: np.ndarray,
        target: Target,
    ) -> np.ndarray:
        """Features float32 [n, names] of legal codes [n] of one template's space."""
        found = np.full((len(codes), len(self.names)), np.nan, dtype=np.float32)
        if not len(codes):
            return found
        for name, value in fixed(workload, template, target).items():
            if name in self._at:
                found[:, self._at[name]] = value
        for name, column in varied(space, codes, workload, target):
            if name in self._at:
                found[:, self._at[name]] = column
        return found


def fixed(workload: Workload, template: str, target: Target) -> dict[str, float]:
    """What all configurations of a template have in common."""
    return {**workload_features(workload, target), f"template={template}": 1.0}


def varied(
    space: Space[Any], codes: np.ndarray, workload: Workload, target: Target
) -> Iterator[tuple[str, np.ndarray]]:
    """A space's columns by name, what they say together, and the estimate over the roofline."""
    features = space.encode_codes(codes)
    for name, column in zip(space.feature_names, features.T, strict=True):
        yield name, column
        if name == ESTIMATE:
            floor = target.roofline_seconds(workload.operations_by_dtype, workload.bytes)
            yield "estimate/floor", np.log2(np.maximum(column, _TINY) / max(floor, _TINY))
    named = dict(zip(space.feature_names, features.T.astype(np.float64), strict=True))
    yield from balance(named, target.units)
