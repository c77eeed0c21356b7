"""Shapes and dtypes of workloads, and the same workloads over other dtypes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autoq.templates.arrays.storage import BYTE_DTYPES, value_dtype
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.add import Add
from autoq.templates.operators.concat import Concat
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.dequantize import Dequantize
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.lookup import Lookup
from autoq.templates.operators.pool2d import Pool2d
from autoq.templates.operators.quantize import Quantize
from autoq.templates.registry import matching
from autoq.templates.target import host_cpu
from autoq.templates.workload import Workload

WORKLOADS: list[Workload] = [
    Conv2d(2, 9, 9, 32, 48, 3, 3),
    Conv2d(2, 9, 9, 32, 48, 3, 3, epilogue=Epilogue("uint8", "int8", True)),
    Conv2d(2, 9, 9, 32, 48, 1, 1, epilogue=Epilogue("float32")),
    Gemm(7, 24, 64, epilogue=Epilogue("int8", "uint8")),
    Pool2d("max", 2, 9, 9, 32, 3, 3),
    Pool2d("average", 2, 9, 9, 32, 3, 3, requantize=True),
    Add((3, 5), "int8", "uint8", "int8"),
    Concat(49, (16, 24), ("int8", "uint8"), (False, True)),
    Quantize(2, 8, 8, 3, 16, 2),
    Dequantize(2, 7, 7, 24, in_dtype="uint8"),
    Lookup((2, 7, 24), "uint8", "float32"),
]
FOUR_BITS = {byte: four for four, byte in BYTE_DTYPES.items()}


def variants(workload: Workload) -> list[Workload]:
    """The workload with one of its 8-bit activations, or its weights, of 4 bits."""
    dtypes = [spec.dtype for spec in (*workload.inputs, *workload.outputs)]
    found = []
    for index, dtype in enumerate(dtypes):
        if dtype in FOUR_BITS:
            one = [*dtypes[:index], FOUR_BITS[dtype], *dtypes[index + 1 :]]
            found.append(workload.retyped(one[:-1], one[-1:]))
    of_nibbles = workload.with_constant("weight", "int4")
    return found if of_nibbles is None else [*found, of_nibbles]


@pytest.mark.parametrize("workload", WORKLOADS, ids=str)
def test_specs_say_what_the_random_case_and_the_reference_are(workload: Workload) -> None:
    activations, constants = workload.random_case(np.random.default_rng(2))
    outputs = workload.reference(activations, constants)
    for specs, arrays in ((workload.inputs, activations), (workload.outputs, outputs)):
        assert [spec.shape for spec in specs] == [array.shape for array in arrays]
        assert [value_dtype(spec.dtype) for spec in specs] == [str(a.dtype) for a in arrays]
    needed = {spec.name for spec in workload.constants if not spec.optional}
    assert needed <= constants.keys() <= {spec.name for spec in workload.constants}
    for spec in workload.constants:
        array = np.asarray(constants[spec.name])
        assert array.shape == spec.shape
        assert not spec.shape or str(array.dtype) == value_dtype(spec.dtype)


@pytest.mark.parametrize("workload", WORKLOADS, ids=str)
def test_retyped_changes_dtypes_alone(workload: Workload) -> None:
    specs = (*workload.inputs, *workload.outputs)
    dtypes = [spec.dtype for spec in specs]
    assert workload.retyped(dtypes[:-1], dtypes[-1:]) == workload
    wanted = [FOUR_BITS.get(dtype, dtype) for dtype in dtypes]
    changed = workload.retyped(wanted[:-1], wanted[-1:])
    found = (*changed.inputs, *changed.outputs)
    assert [spec.dtype for spec in found] == wanted
    assert [spec.shape for spec in found] == [spec.shape for spec in specs]


@pytest.mark.parametrize("workload", WORKLOADS, ids=str)
def test_cpu_kernels_take_four_bits_in_factors_alone(workload: Workload) -> None:
    assert variants(workload) and matching(workload, host_cpu())
    vnni = replace(host_cpu(), vnni=True, avx512=True)
    for variant in variants(workload):
        assert variant.has_four_bits and not workload.has_four_bits
        others = variant.inputs[1:] if isinstance(variant, Gemm) else variant.inputs
        dtypes = {spec.dtype for spec in (*others, *variant.outputs)}
        bytes_alone = not dtypes & set(BYTE_DTYPES)
        assert bool(matching(variant, host_cpu())) == bytes_alone
        assert bool(matching(variant, vnni)) == bytes_alone
