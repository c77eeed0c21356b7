"""Activations of 4 bits on the CPU: every output of products that widen them, odd rows too."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_kernels import HASWELL, Guarded, host

from autoq.kernel.compile import compile_program
from autoq.measure.arrays import random_case, stored_activations
from autoq.runtime.cpu.kernel import LoadedCpuKernel
from autoq.templates.arrays.element import numpy_dtype
from autoq.templates.base import Template
from autoq.templates.cpu.conv import gemm_widened_direct, gemm_widened_pairs
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.gemm import Gemm
from autoq.templates.registry import matching

PAIRS, DIRECT = gemm_widened_pairs.TEMPLATE, gemm_widened_direct.TEMPLATE
CASES = (
    (PAIRS, Gemm(9, 33, 70, "int4", "int4", Epilogue("int32"))),
    (PAIRS, Gemm(5, 20, 35, "uint4", "int8", Epilogue("uint8", "int8"))),
    (DIRECT, Gemm(3, 7, 1, "int4", "int4", Epilogue("float32"))),
)


@pytest.mark.parametrize(
    ("template", "workload"),
    CASES,
    ids=lambda value: value.name if isinstance(value, Template) else str(value),
)
def test_every_element_is_exact(template: Template, workload: Gemm) -> None:
    if not host().avx2:
        pytest.skip("this CPU has no AVX2")
    assert template in matching(workload, HASWELL)
    config = template.default(workload, HASWELL)
    values, constants = random_case(workload, 3)
    packed = template.constants(workload, config, constants)
    (expected,) = workload.reference(values, constants)
    y = np.full(workload.y_shape, 77, numpy_dtype(workload.epilogue.out_dtype))
    specs = (*workload.inputs, *template.packed(workload, config), *workload.outputs)
    program = template.program(workload, config, HASWELL)
    spaces = [np.full(item.spec.shape, 99, item.spec.dtype) for item in program.workspaces]
    kernel = LoadedCpuKernel(compile_program(program, specs, HASWELL))
    arrays = (*stored_activations(workload, values), *packed, y, *spaces)
    guarded = [Guarded(array) for array in arrays]
    kernel.bind([buffer.array for buffer in guarded])()
    assert all(buffer.intact for buffer in guarded)
    np.testing.assert_array_equal(guarded[len(specs) - 1].array, expected)
