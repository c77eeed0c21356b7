"""Products of random sparse matrices on a GPU: every pair of types and length of vectors.

A class of matrices holds all of its extents, so that one kernel takes every matrix that is drawn:
rows that are empty, full or hold one vector, and matrices that are all of this.
"""

from __future__ import annotations

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


def workload_of(values: str, dense: str, vector: int) -> Spmm:
    """A product of a class that holds full matrices too."""
    structure = Structure(bucket(-(-M // vector) * K), bucket(K), bucket(K))
    floats = dense.endswith("float16") or {values, dense} & {"int16", "uint16"}
    epilogue = Epilogue("float32" if floats else "int32")
    return Spmm(M, N, K, vector, structure, dense, values, epilogue)


@functools.cache
def kernels_of(workload: Spmm) -> Made:
    """The untuned choice of every template that computes it."""
    target, store = gpu_target(), kernel_store()
    chosen = [(one, one.default(workload, target)) for one in matching(workload, target)]
    made = [(one, config, store.kernel(one, workload, config, target)) for one, config in chosen]
    end_if_compile_only()
    return made


@pytest.mark.parametrize("vector", VECTORS)
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_every_element_is_right(pair: tuple[str, str], vector: int) -> None:
    workload, target = workload_of(*pair, vector), gpu_target()
    made, rows = kernels_of(workload), workload.vector_rows
    assert made

    @settings(max_examples=12, deadline=None, database=None)
    @given(
        lengths=st.lists(st.sampled_from([0, 1, 2, 31, 32, 33, K]), min_size=1, max_size=rows),
        seed=st.integers(0, 999),
    )
    def multiplies(lengths: list[int], seed: int) -> None:
        rng = np.random.default_rng(seed)
        activations, constants = workload.random_case(rng)
        of_rows = np.resize(np.array(lengths), rows)
        matrix = matrix_of_lengths(rng, (M, K), vector, of_rows, workload.weight_dtype)
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
