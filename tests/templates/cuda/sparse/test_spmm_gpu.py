"""Products of random sparse matrices on a GPU: every pair of types and length of vectors.

A class of matrices holds all of its extents, so that one kernel takes every matrix that is drawn:
rows that are empty, full or hold one vector, and matrices that are all of this.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest
from gpu_kernels import end_if_compile_only, gpu_target, kernel_store
from hypothesis import given, settings
from hypothesis import strategies as st

from autoq.measure.arrays import stored_activations, stored_outputs
from autoq.measure.check import complaints
from autoq.measure.cuda_bench import CudaBench
from autoq.runtime.cuda.driver import Device
from autoq.runtime.kernel import Kernel
from autoq.templates.base import Template
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.spmm import VECTORS, Spmm
from autoq.templates.registry import matching
from autoq.templates.sparse.generation import matrix_of_lengths
from autoq.templates.sparse.structure import Structure, bucket

pytestmark = pytest.mark.gpu

M, N, K = 133, 64, 150
PAIRS = [
    ("int16", "int16"), ("int16", "int8"), ("int16", "int4"), ("int8", "int8"), ("int8", "int4"),
    ("int4", "int4"), ("uint16", "uint8"), ("uint8", "uint8"), ("uint8", "uint4"),
    ("int8", "int16"), ("float16", "float16"), ("bfloat16", "bfloat16"),
]  # fmt: skip
"""Types of the sparse and of the dense side."""

Made = list[tuple[Template, Any, Kernel]]


def workload_of(values: str, dense: str, vector: int, m: int = M) -> Spmm:
    """A product of a class that holds full matrices too."""
    structure = Structure(bucket(-(-m // vector) * K), bucket(K), bucket(K))
    floats = dense.endswith("float16") or {values, dense} & {"int16", "uint16"}
    epilogue = Epilogue("float32" if floats else "int32")
    return Spmm(m, N, K, vector, structure, dense, values, epilogue)


@functools.cache
def kernels_of(workload: Spmm, drawn: int = 0) -> Made:
    """The untuned choice of every template that computes it, and some that are drawn of each."""
    target, store = gpu_target(), kernel_store()
    chosen = []
    for one in matching(workload, target):
        space = one.space(workload, target)
        others = space.sample(np.random.default_rng(8), drawn) if drawn else []
        configs = dict.fromkeys([one.default(workload, target), *others])
        chosen += [(one, config) for config in configs]
    made = [(one, config, store.kernel(one, workload, config, target)) for one, config in chosen]
    end_if_compile_only()
    return made


@pytest.mark.parametrize("vector", VECTORS)
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_every_element_is_right(pair: tuple[str, str], vector: int) -> None:
    multiplies_random_matrices(workload_of(*pair, vector), kernels_of(workload_of(*pair, vector)))


@pytest.mark.parametrize("m", [256, M])
@pytest.mark.parametrize("vector", [4, 8, 32, 128])
def test_bytes_of_one_scale_are_right_by_drawn_configurations(vector: int, m: int) -> None:
    workload = dataclasses.replace(
        workload_of("int8", "int8", vector, m), epilogue=Epilogue(uniform=True)
    )
    multiplies_random_matrices(workload, kernels_of(workload, 4))


def multiplies_random_matrices(workload: Spmm, made: Made) -> None:
    """Every element of random matrices' products by all of the kernels is right."""
    target, rows = gpu_target(), workload.vector_rows
    assert made

    @settings(max_examples=12, deadline=None, database=None)
    @given(
        lengths=st.lists(st.sampled_from([0, 1, 2, 31, 32, 33, K]), min_size=1, max_size=rows),
        seed=st.integers(0, 999),
    )
    def multiplies(lengths: list[int], seed: int) -> None:
        rng = np.random.default_rng(seed)
        activations, constants = workload.random_case(rng)
        of_rows, shape = np.resize(np.array(lengths), rows), (workload.m, K)
        matrix = matrix_of_lengths(rng, shape, workload.vector, of_rows, workload.weight_dtype)
        arrays = {
            "values": matrix.values, "columns": matrix.indices, "pointers": matrix.pointers,
        }  # fmt: skip
        own = constants | arrays
        expected = stored_outputs(workload, workload.reference(activations, own))
        bench = CudaBench(Device(), stored_activations(workload, activations), expected)
        for template, config, kernel in made:
            candidate = bench.load(kernel, template.constants(workload, config, own))
            wrong = complaints(candidate.run_over(0x55), expected, workload, target)
            assert not wrong, f"{template.name} {config}: {wrong}"

    multiplies()
