"""Every CPU convolution and matrix product against the numpy reference, bit for bit."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from cpu_kernels import check, check_layer, host, random_layer, run, small_tile
from hypothesis import given, settings
from hypothesis import strategies as st

from autoq.templates.cpu.conv import conv2d_direct, conv2d_pairs, conv2d_vnni
from autoq.templates.cpu.conv.config import ConvConfig
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm
from autoq.templates.oracle.reference import reference
from autoq.templates.target import Target

VNNI, PAIRS, DIRECT = conv2d_vnni.TEMPLATE, conv2d_pairs.TEMPLATE, conv2d_direct.TEMPLATE
AVX2 = Target("cpu", "haswell", units=2, avx2=True)
SSE = Target("cpu", "x86-64", units=2)

SKYLAKE = Target("cpu", "skylake-avx512", units=2, avx512=True, avx2=True)

needs_avx2 = pytest.mark.skipif(not host().avx2, reason="this CPU has no AVX2")
needs_vnni = pytest.mark.skipif(not host().vnni, reason="this CPU has no AVX512-VNNI")

LAYERS = {
    "resnet 3x3": Conv2d(1, 14, 14, 64, 64, 3, 3, padding=(1, 1, 1, 1), zero_point_border=True),
    "stem": Conv2d(2, 23, 21, 3, 37, 7, 7, (2, 2), (3, 3, 3, 3), in_dtype="uint8",
                   zero_point_border=True),
    "uneven everything": Conv2d(2, 9, 10, 20, 7, 3, 2, (1, 2), (1, 0, 2, 3), (2, 2),
                                zero_point_border=True, border_bias=True),
    "dilated, ragged channels": Conv2d(1, 9, 12, 6, 20, 3, 3, (1, 1), (2, 2, 2, 2), (2, 2),
                                       zero_point_border=True),
    "groups": Conv2d(1, 9, 10, 24, 48, 3, 3, (1, 1), (1, 1, 1, 1), groups=3,
                     zero_point_border=True, epilogue=Epilogue("uint8", "int8")),
    "ragged groups": Conv2d(1, 9, 10, 18, 27, 3, 3, (2, 1), (1, 1, 1, 1), groups=3,
                            epilogue=Epilogue("int8", "uint8", True)),
    "pointwise": Conv2d(3, 8, 8, 32, 40, 1, 1, epilogue=Epilogue("int8", "int8", True)),
    "pointwise, stride 2": Conv2d(3, 9, 8, 32, 40, 1, 1, (2, 2), in_dtype="uint8",
                                  epilogue=Epilogue("uint8")),
    "padded pointwise": Conv2d(1, 5, 5, 8, 16, 1, 1, padding=(1, 1, 1, 1), zero_point_border=True),
    "window of the image": Conv2d(2, 6, 6, 16, 24, 6, 6, epilogue=Epilogue("float32")),
    "mostly padding": Conv2d(1, 2, 2, 8, 16, 3, 3, padding=(3, 3, 3, 3), zero_point_border=True,
                             border_bias=True),
    "one channel": Conv2d(1, 12, 12, 1, 6, 5, 5, epilogue=Epilogue("int32")),
    "float residual": Conv2d(1, 5, 6, 33, 40, 1, 1, epilogue=Epilogue("int8", "float32")),
    "float out": Conv2d(1, 7, 7, 16, 16, 3, 3, epilogue=Epilogue("float32", "int8", True)),
    "gemm": Gemm(5, 130, 1000),
    "gemv": Gemm(1, 33, 512, in_dtype="uint8", epilogue=Epilogue("float32")),
    "ragged gemm": Gemm(40, 70, 61, epilogue=Epilogue("int32")),
    "gemm with a residual": Gemm(17, 48, 64, epilogue=Epilogue("int8", "int8")),
}  # fmt: skip
DEPTHWISE = {
    "depthwise": Conv2d(1, 15, 14, 40, 40, 3, 3, (1, 1), (1, 1, 1, 1), groups=40,
                        zero_point_border=True),
    "few channels": Conv2d(2, 15, 14, 5, 5, 5, 3, (2, 2), (2, 1, 2, 1), (1, 2), groups=5,
                           in_dtype="uint8", zero_point_border=True),
    "no padding": Conv2d(2, 15, 14, 32, 32, 3, 3, (2, 2), groups=32,
                         epilogue=Epilogue("int8", "int8")),
    "multiplier 2": Conv2d(1, 9, 9, 8, 16, 3, 3, (1, 1), (1, 1, 1, 1), groups=8,
                           zero_point_border=True),
}  # fmt: skip


WORDS = (
    "resnet 3x3", "stem", "uneven everything", "dilated, ragged channels", "groups",
    "ragged groups", "pointwise, stride 2", "gemv", "ragged gemm",
)  # fmt: skip
"""Layers that differ in how bytes are read and widened; epilogues are those of every template."""

PLAIN = ("uneven everything", "groups", "ragged groups", "one channel", "float residual",
         "float out", "gemm")  # fmt: skip
"""Layers that differ in what the plain kernel does with integers; float32 has all geometries."""

FLOAT32 = [name for name in (*LAYERS, *DEPTHWISE)
           if name not in ("float residual", "float out", "ragged gemm")]  # fmt: skip
"""All geometries: without their epilogues, the others are no more than some of these."""


def check_named(template, name, target=None):
    """`check_layer` of a default, or of few pixels where both sides of a sum are requantised.

    LLVM takes a second or more for the epilogue of these at every pixel of a default's tile.
    """
    workload = {**LAYERS, **DEPTHWISE}[name]
    long = workload.epilogue.requantize_before_add
    config = small_tile(template, workload, target) if long else None
    check_layer(template, workload, config=config, target=target)


def as_float32(workload: Conv2d | Gemm) -> Conv2d | Gemm:
    residual = "float32" if workload.epilogue.residual_dtype else None
    values = {"in_dtype": "float32", "weight_dtype": "float32",
              "epilogue": Epilogue("float32", residual)}  # fmt: skip
    if isinstance(workload, Conv2d):
        values |= {"zero_point_border": False, "border_bias": False}
    return dataclasses.replace(workload, **values)


@needs_vnni
@pytest.mark.parametrize("name", LAYERS)
def test_vnni_layers(name):
    check_named(VNNI, name)


@needs_avx2
@pytest.mark.parametrize("name", WORDS)
def test_pairs_layers(name):
    check_named(PAIRS, name, AVX2)


@pytest.mark.skipif(not host().avx512, reason="this CPU has no AVX512")
@pytest.mark.parametrize("name", ["uneven everything", "gemm"])
def test_wide_pairs(name):
    check_layer(PAIRS, LAYERS[name], target=SKYLAKE)


@pytest.mark.parametrize("name", [*PLAIN, *DEPTHWISE])
def test_direct_layers(name):
    check_named(DIRECT, name)


@pytest.mark.parametrize("name", FLOAT32)
def test_float32_layers(name):
    check_layer(DIRECT, as_float32({**LAYERS, **DEPTHWISE}[name]))


@needs_avx2
@pytest.mark.parametrize(
    ("name", "target"),
    [("uneven everything", AVX2), ("ragged groups", SSE), ("depthwise", AVX2), ("gemm", SSE)],
    ids=str,
)
def test_lesser_cpus(name, target):
    workload = {**LAYERS, **DEPTHWISE}[name]
    assert not VNNI.matches(workload, target)
    check_named(DIRECT, name, target)


@needs_vnni
def test_tiles_that_four_tasks_share_in_three():
    workload = Conv2d(1, 1, 1, 12, 51, 1, 1, groups=3)
    config = ConvConfig(16, 1, 1, 1, 1, 4, True)
    check_layer(VNNI, workload, config=config)


@needs_vnni
def test_channels_of_scale_zero_are_those_of_the_residual():
    epilogue = Epilogue("uint8", "int8", True, concatenates=True)
    workload = Conv2d(1, 5, 5, 12, 24, 1, 1, epilogue=epilogue)
    for template in (VNNI, DIRECT):
        check_layer(template, workload, config=small_tile(template, workload))


@needs_vnni
@pytest.mark.parametrize("residual", [None, "int8", "uint8", "float32"])
@pytest.mark.parametrize("out_dtype", ["int8", "uint8", "float32"])
def test_every_epilogue(out_dtype, residual):
    modes = (False, True) if residual else (False,)
    for requantize_before_add in modes:
        epilogue = Epilogue(out_dtype, residual, requantize_before_add)
        workload = Conv2d(1, 5, 5, 12, 24, 3, 3, (1, 1), (1, 1, 1, 1), epilogue=epilogue,
                          zero_point_border=True)  # fmt: skip
        check_layer(VNNI, workload, config=small_tile(VNNI, workload))


@pytest.mark.parametrize("in_dtype", ["int8", "uint8"])
@pytest.mark.parametrize("template", [VNNI, PAIRS, DIRECT], ids=lambda item: item.name)
def test_extreme_products_do_not_saturate(template, in_dtype):
    workload = Gemm(3, 16, 512, in_dtype=in_dtype, epilogue=Epilogue("int32"))
    (x,), constants = random_layer(workload)
    x[0], x[1], x[2] = np.iinfo(in_dtype).min, np.iinfo(in_dtype).max, 0
    constants["weight"][:8], constants["weight"][8:] = -128, 127
    constants["bias"][:] = 0
    target = AVX2 if template is PAIRS and host().avx2 else host()
    if not template.matches(workload, target):
        pytest.skip("this CPU lacks the instruction")
    check(template, workload, [x], constants, target=target)


def test_rounding_is_half_to_even():
    workload = Gemm(1, 16, 4, epilogue=Epilogue("int8"))
    (x,), constants = random_layer(workload, x_zero_point=0)
    x[:] = [[1, 0, 0, 0]]
    constants["weight"][:] = 0
    constants["weight"][:, 0] = np.arange(-8, 8)
    constants["bias"][:] = 0
    constants["scale"][:] = 0.5
    constants["scalars"][5:8] = -128, 127, 0
    config = DIRECT.default(workload, host())
    y = run(DIRECT, workload, config, [x], constants)
    np.testing.assert_array_equal(y[0], [-4, -4, -3, -2, -2, -2, -1, 0, 0, 0, 1, 2, 2, 2, 3, 4])
    np.testing.assert_array_equal(y, reference(workload, [x], constants))


@st.composite
def convolutions(draw: st.DrawFn) -> Conv2d:
    def integers(low: int, high: int) -> int:
        return draw(st.integers(low, high))

    groups, depthwise = draw(st.sampled_from([1, 1, 1, 2, 3])), draw(st.integers(0, 4)) == 0
    c, k = groups * integers(1, 21), groups * integers(1, 40)
    if depthwise:
        k = groups = c
    r, s = integers(1, 4), integers(1, 4)
    padding = tuple(integers(0, 3) for _ in range(4))
    dilation = (integers(1, 2), integers(1, 2))
    out_dtype = draw(st.sampled_from(["int8", "uint8", "int32", "float32"]))
    residual = (
        draw(st.sampled_from([None, None, "int8", "uint8"])) if out_dtype != "int32" else None
    )
    return Conv2d(
        n=integers(1, 3),
        h=integers(dilation[0] * (r - 1) + 1, 14),
        w=integers(dilation[1] * (s - 1) + 1, 34),
        c=c,
        k=k,
        r=r,
        s=s,
        stride=(integers(1, 3), integers(1, 3)),
        padding=padding,
        dilation=dilation,
        groups=groups,
        in_dtype=draw(st.sampled_from(["int8", "uint8"])),
        zero_point_border=any(padding),
        border_bias=any(padding) and groups == 1 and draw(st.booleans()),
        epilogue=Epilogue(out_dtype, residual, bool(residual) and draw(st.booleans())),
    )


@settings(max_examples=10, deadline=None, derandomize=True)
@given(workload=convolutions(), seed=st.integers(0, 1000))
def test_random_convolutions_with_random_configurations(workload, seed):
    layer = random_layer(workload, seed)
    for template in (VNNI, DIRECT):
        if template.matches(workload, host()):
            space = template.space(workload, host())
            (config,) = space.sample(np.random.default_rng(seed), 1)
            check(template, workload, *layer, config=config)
