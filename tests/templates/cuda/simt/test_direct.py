"""Direct and depthwise convolution: exact on the emulator, compiled everywhere, exact on a GPU."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from direct_cases import DEPTHWISE, DIRECT, case_id, depthwise, random_convolution
from kernel_runs import assert_equal, check_on_gpu, emulated
from with_nvcc import needs_nvcc

from autoq.kernel import compile_kernel
from autoq.templates.cuda.simt import conv2d_depthwise, conv2d_direct
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm
from autoq.templates.oracle.reference import reference
from autoq.templates.target import parse_target

CUDA = parse_target("cuda:sm_75")
BOTH = [
    *((conv2d_direct.TEMPLATE, case) for case in DIRECT),
    *((conv2d_depthwise.TEMPLATE, case) for case in DEPTHWISE),
    (conv2d_direct.TEMPLATE, DEPTHWISE[1]),
]
IDS = [f"{template.name}-{case_id(case)}" for template, case in BOTH]


def exact_emulated(template, workload, config):
    assert template.matches(workload, CUDA)
    assert config in template.space(workload, CUDA)
    activations, constants = random_convolution(workload, np.random.default_rng(5))
    got = emulated(template, workload, config, CUDA, activations, constants)
    assert_equal(workload, got, reference(workload, activations, constants))


@needs_nvcc
@pytest.mark.parametrize(("template", "workload"), BOTH, ids=IDS)
def test_exact_emulated(template, workload):
    config = dataclasses.replace(template.default(workload, CUDA), pixels=4)
    exact_emulated(template, workload, config)


@needs_nvcc
@pytest.mark.parametrize(
    "conv",
    [
        Conv2d(1, 4, 4, 8, 8, 1, 1, epilogue=Epilogue("int8", "float32")),
        Conv2d(1, 4, 4, 8, 8, 1, 1, epilogue=Epilogue("float32", "float32")),
    ],
    ids=case_id,
)
def test_nan_of_a_residual_comes_out(conv):
    """Quantised, it is the least value, as in onnxruntime."""
    activations, constants = random_convolution(conv, np.random.default_rng(5))
    activations[1].reshape(-1)[::7] = np.nan
    template = conv2d_direct.TEMPLATE
    config = template.default(conv, CUDA)
    got = emulated(template, conv, config, CUDA, activations, constants)
    assert_equal(conv, got, reference(conv, activations, constants))


@needs_nvcc
@pytest.mark.parametrize("pixels", [1, 8])
@pytest.mark.parametrize(("template", "workload"), [BOTH[1], BOTH[14]], ids=[IDS[1], IDS[14]])
def test_pixels_of_a_thread(template, workload, pixels):
    config = dataclasses.replace(template.default(workload, CUDA), pixels=pixels)
    exact_emulated(template, workload, config)


COMPILED = [
    (conv2d_direct.TEMPLATE, Conv2d(8, 56, 56, 64, 64, 3, 3, padding=(1, 1, 1, 1))),
    (conv2d_direct.TEMPLATE, Conv2d(8, 224, 224, 3, 64, 7, 7, (2, 2), (3, 3, 3, 3),
                                    in_dtype="uint8", zero_point_border=True,
                                    epilogue=Epilogue("uint8"))),
    (conv2d_direct.TEMPLATE, Gemm(128, 1000, 2048, epilogue=Epilogue("int8", "int8", True))),
    (conv2d_depthwise.TEMPLATE, depthwise(32, 56, 56, 128, 3, 3, padding=(1, 1, 1, 1))),
]  # fmt: skip


@needs_nvcc
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize(("template", "workload"), COMPILED, ids=lambda value: str(value)[:40])
def test_compiles_without_spills(template, workload, arch):
    target = parse_target(f"cuda:{arch}")
    config = template.default(workload, target)
    kernel = compile_kernel(template.build(workload, config, target), target)
    assert kernel.spill_bytes == 0
    assert kernel.registers <= 128


@pytest.mark.gpu
@pytest.mark.parametrize(("template", "workload"), BOTH, ids=IDS)
def test_exact_on_gpu(template, workload):
    check_on_gpu(template, workload, *random_convolution(workload, np.random.default_rng(9)))


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(20))
def test_random_convolutions_are_exact_on_gpu(seed):
    rng = np.random.default_rng(seed)
    groups = int(rng.choice([1, 1, 2, 3, 8]))
    workload = Conv2d(
        n=int(rng.integers(1, 4)),
        h=int(rng.integers(12, 30)),
        w=int(rng.integers(12, 30)),
        c=groups * int(rng.integers(1, 40)),
        k=groups * int(rng.integers(1, 40)),
        r=int(rng.integers(1, 6)),
        s=int(rng.integers(1, 6)),
        stride=tuple(rng.integers(1, 4, 2).tolist()),
        padding=tuple(rng.integers(0, 4, 4).tolist()),
        dilation=tuple(rng.integers(1, 3, 2).tolist()),
        groups=groups,
        in_dtype=str(rng.choice(["int8", "uint8"])),
        zero_point_border=True,
        epilogue=Epilogue(str(rng.choice(["int8", "uint8"])), rng.choice([None, "int8"]), False),
    )
    check_on_gpu(conv2d_direct.TEMPLATE, workload, *random_convolution(workload, rng))


def test_matches():
    assert all(conv2d_direct.TEMPLATE.matches(case, CUDA) for case in (*DIRECT, *DEPTHWISE))
    assert not any(conv2d_depthwise.TEMPLATE.matches(case, CUDA) for case in DIRECT)
    cpu = dataclasses.replace(CUDA, kind="cpu")
    assert not any(template.matches(case, cpu) for template, case in BOTH)
    residual = dataclasses.replace(DIRECT[3], epilogue=Epilogue("int32", "int8"))
    assert not conv2d_direct.TEMPLATE.matches(residual, CUDA)
    quantised = dataclasses.replace(DIRECT[8], epilogue=Epilogue("int8"))
    assert not conv2d_direct.TEMPLATE.matches(quantised, CUDA)


def test_default_fills_the_device():
    small, large = Gemm(1, 1000, 512), Conv2d(128, 56, 56, 64, 64, 3, 3)
    assert conv2d_direct.default(small, CUDA).pixels == 1
    assert conv2d_direct.default(large, CUDA).pixels == 4
