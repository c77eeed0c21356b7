"""Shapes and dtypes of workloads, and the same workloads over other dtypes."""

from __future__ import annotations

from dataclasses import replace

import pytest

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
from autoq.templates.signature import has_four_bits, retyped, signature
from autoq.templates.storage import BYTE_DTYPES
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
    inputs, output = signature(workload)
    dtypes = [dtype for _, dtype in (*inputs, output)]
    found = []
    for index, dtype in enumerate(dtypes):
        if dtype in FOUR_BITS:
            one = [*dtypes[:index], FOUR_BITS[dtype], *dtypes[index + 1 :]]
            found.append(retyped(workload, one[:-1], one[-1]))
    if isinstance(workload, Conv2d | Gemm):
        found.append(replace(workload, weight_dtype="int4"))
    return found


@pytest.mark.parametrize("workload", WORKLOADS, ids=str)
def test_retyped_changes_dtypes_alone(workload: Workload) -> None:
    inputs, output = signature(workload)
    assert retyped(workload, [dtype for _, dtype in inputs], output[1]) == workload
    wanted = [FOUR_BITS.get(dtype, dtype) for _, dtype in (*inputs, output)]
    found_inputs, found_output = signature(retyped(workload, wanted[:-1], wanted[-1]))
    assert [dtype for _, dtype in (*found_inputs, found_output)] == wanted
    assert [shape for shape, _ in found_inputs] == [shape for shape, _ in inputs]
    assert found_output[0] == output[0]


@pytest.mark.parametrize("workload", WORKLOADS, ids=str)
def test_no_cpu_kernel_takes_four_bits(workload: Workload) -> None:
    assert variants(workload) and matching(workload, host_cpu())
    vnni = replace(host_cpu(), vnni=True, avx512=True)
    for variant in variants(workload):
        assert has_four_bits(variant) and not has_four_bits(workload)
        assert not matching(variant, host_cpu()) and not matching(variant, vnni)
