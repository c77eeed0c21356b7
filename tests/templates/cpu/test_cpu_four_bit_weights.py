"""Weights of int4 beside bytes on the CPU: the bytes that `pack` makes of them, whole outputs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from cpu_kernels import HASWELL, host, run

from autoq.templates.cpu.conv import conv2d_direct, conv2d_pairs, conv2d_vnni
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm
from autoq.templates.registry import matching
from autoq.templates.target import Target

TEMPLATES = {
    conv2d_vnni.TEMPLATE: host(),
    conv2d_pairs.TEMPLATE: HASWELL,
    conv2d_direct.TEMPLATE: Target("cpu", "x86-64", units=2),
}
CASES = (
    Gemm(9, 33, 70, "uint8", "int4", Epilogue("int8")),
    Gemm(7, 40, 72, "int8", "int4", Epilogue("float32", scale_group=24)),
    Conv2d(1, 7, 8, 12, 20, 3, 3, padding=(1, 1, 1, 1), weight_dtype="int4"),
)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
@pytest.mark.parametrize("workload", CASES, ids=str)
def test_every_template_of_bytes_is_exact(template, workload):
    target = TEMPLATES[template]
    if not host().avx2 or not (host().vnni or template is not conv2d_vnni.TEMPLATE):
        pytest.skip("this CPU has no such instructions")
    assert template.matches(workload, target)
    activations, constants = workload.random_case(np.random.default_rng(0))
    config = template.default(workload, target)
    y = run(template, workload, config, list(activations), constants, target)
    (expected,) = workload.reference(activations, constants)
    np.testing.assert_array_equal(y, expected)


def test_the_kernel_is_that_of_bytes():
    bytes_of = dataclasses.replace(CASES[0], weight_dtype="int8")
    for template, target in TEMPLATES.items():
        if template.matches(bytes_of, target):
            configs = [template.default(workload, target) for workload in (CASES[0], bytes_of)]
            assert configs[0] == configs[1]
            assert template.packed(CASES[0], configs[0]) == template.packed(bytes_of, configs[1])


@pytest.mark.parametrize(
    "workload",
    [
        Gemm(8, 32, 64, "int4", "int4", Epilogue("int4")),
        Gemm(8, 32, 64, "uint4", "int4", Epilogue("int8", "uint4")),
        Gemm(8, 32, 64, "uint8", "int4", Epilogue("uint4")),
        Gemm(8, 32, 64, "uint8", "int4", Epilogue("uint8", "int4")),
        Gemm(8, 32, 64, "float32", "float32", Epilogue("int4")),
    ],
    ids=str,
)
def test_outputs_of_four_bits_are_declined(workload):
    assert not [
        template for target in TEMPLATES.values() for template in matching(workload, target)
    ]
