"""Kernels over rows that write some columns of their bytes again, however lanes share a row."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from ptx.kernels import EAGER, LATE, run_program
from row_cases import byte_norm, inputs_of, norm, softmax
from with_nvcc import needs_nvcc

from autoq.graph.evaluate import fusion_outputs
from autoq.graph.lowering.fusions import fusion_program, picks
from autoq.graph.results import Picked
from autoq.templates.target import parse_target

HOPPER = parse_target("cuda:sm_90a")

CASES = {
    "rows of a quarter of a warp": (byte_norm(3, 5, 32), 4),
    "rows of a warp": (byte_norm(3, 5, 96), 64),
    "several rows of a warp": (byte_norm(4000, 768), 544),
    "rows of several warps": (byte_norm(3, 1280), 672),
    "signed bytes": (byte_norm(2, 5, 128, dtype="int8"), 128),
    "any formula": (norm(2, 5, 96), 32),
}


@needs_nvcc
@pytest.mark.parametrize("name", CASES)
def test_columns_are_picked(name):
    node, count = CASES[name]
    columns = node.output_shape[-1]
    places = np.random.default_rng(0).permutation(columns)[:count]
    node = dataclasses.replace(node, picked=Picked("picked", places))
    assert picks(node, count, HOPPER)
    program, arrays = fusion_program(node, HOPPER)
    inputs = inputs_of(node)
    held = [*inputs, *node.kernel_constants]
    given = {spec.name: array.reshape(-1) for spec, array in zip(arrays, held, strict=False)}
    outputs = {spec.name: spec.stored for spec in arrays[len(given) :]}
    constants = {*given} - {spec.name for spec in arrays[: len(inputs)]}
    for mode in (EAGER, LATE) if node.output_shape[0] < 1000 else (EAGER,):
        found = run_program(program, HOPPER, given, outputs, mode, constants)
        y, picked = (array.reshape(shape) for array, shape in
                     zip(found.values(), node.output_shapes, strict=True))  # fmt: skip
        expected, _ = fusion_outputs(node, inputs)
        assert np.abs(y.astype(int) - expected).max() <= 1
        assert np.array_equal(picked, y[..., places])


@pytest.mark.parametrize(
    ("node", "count"),
    [(softmax(3, 40), 8), (byte_norm(3, 37), 8), (byte_norm(3, 96), 6), (byte_norm(3, 96), 0)],
)
def test_floats_and_parts_of_words_are_not_picked(node, count):
    assert not picks(node, count, HOPPER)
    assert not picks(byte_norm(3, 96), 32, parse_target("cpu"))
