"""The grouped convolution: exact on the emulator, compiled, exact on a GPU."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from direct_cases import case_id, depthwise, random_convolution
from kernel_runs import assert_equal, check_on_gpu, emulated
from with_nvcc import needs_nvcc

from autoq.kernel import compile_kernel
from autoq.templates.arrays.element import INTEGER_RANGE
from autoq.templates.cuda.device.launch.occupancy import register_limit
from autoq.templates.cuda.grouped.conv2d_grouped import TEMPLATE
from autoq.templates.cuda.grouped.tiling import GroupedConfig, GroupedTiling
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.oracle.reference import reference
from autoq.templates.registry import matching
from autoq.templates.target import parse_target

CUDA = parse_target("cuda:sm_80")
# So small that a block has several tiles in turn.
SMALL = dataclasses.replace(CUDA, units=1)
_SAME = {"padding": (1, 1, 1, 1)}
CASES = [
    (depthwise(2, 6, 17, 32, 3, 3, **_SAME, in_dtype="uint8", epilogue=Epilogue("uint8")),
     GroupedConfig(32, 4, 1, 1, 2)),
    (depthwise(3, 9, 9, 48, 3, 3, stride=(2, 2), **_SAME, zero_point_border=True,
               epilogue=Epilogue("uint8", "int8", True)), GroupedConfig(48, 2, 1, 1, 1)),
    (Conv2d(3, 8, 9, 64, 64, 5, 3, (1, 2), (2, 1, 0, 2), (2, 1), 16, in_dtype="uint8",
            zero_point_border=True), GroupedConfig(64, 1, 2, 2, 1)),
    (depthwise(2, 6, 17, 32, 3, 3, **_SAME, epilogue=Epilogue("uint8", table=True)),
     GroupedConfig(32, 4, 1, 1, 2)),
    (Conv2d(2, 7, 7, 32, 32, 3, 2, **_SAME, groups=4,
            epilogue=Epilogue("int8", "uint8", table=True)), GroupedConfig(32, 7, 2, 1, 1)),
    (Conv2d(2, 7, 7, 32, 32, 3, 2, **_SAME, groups=4, epilogue=Epilogue("int32")),
     GroupedConfig(32, 7, 2, 1, 1)),
    (Conv2d(2, 5, 7, 32, 32, 3, 3, **_SAME, groups=16, epilogue=Epilogue("float32", "float32")),
     GroupedConfig(16, 4, 2, 2, 1)),
    (Conv2d(1, 7, 7, 96, 96, 3, 3, **_SAME, groups=2, zero_point_border=True,
            epilogue=Epilogue("uint8")), GroupedConfig(48, 4, 1, 2, 1)),
    (depthwise(1, 9, 8, 16, 7, 7, padding=(3, 3, 3, 3), epilogue=Epilogue("uint8")),
     GroupedConfig(16, 4, 1, 3, 1)),
    (Conv2d(3, 7, 7, 96, 96, 1, 5, (3, 1), (0, 2, 0, 2), groups=6, epilogue=Epilogue("int8")),
     GroupedConfig(96, 1, 1, 3, 1)),
]  # fmt: skip
IDS = [case_id(workload) for workload, _ in CASES]
TURNS = [
    (depthwise(2, 20, 17, 32, 3, 3, **_SAME, in_dtype="uint8", epilogue=Epilogue("uint8")),
     GroupedConfig(32, 4, 1, 1, 2, 1, 1)),
    (Conv2d(5, 9, 9, 48, 48, 4, 4, (2, 1), **_SAME, groups=24, zero_point_border=True,
            epilogue=Epilogue("uint8", "int8", True)), GroupedConfig(48, 2, 1, 1, 1, 2, 1)),
    (depthwise(5, 7, 7, 32, 5, 5, padding=(2, 2, 2, 2), epilogue=Epilogue("int8")),
     GroupedConfig(32, 7, 2, 1, 1, 2, 2)),
    (Conv2d(3, 9, 9, 64, 64, 3, 3, **_SAME, groups=2, epilogue=Epilogue("int8")),
     GroupedConfig(64, 4, 1, 1, 1, 3, 1)),
    (Conv2d(2, 8, 20, 32, 32, 3, 1, groups=8, epilogue=Epilogue("int32")),
     GroupedConfig(32, 2, 1, 1, 2, 2, 1)),
    (depthwise(2, 9, 9, 32, 3, 1, padding=(1, 0, 1, 0), in_dtype="uint8"),
     GroupedConfig(32, 4, 1, 1, 2, 2, 1)),
]  # fmt: skip


def arrays_of(workload, whole_range, rng):
    """Random activations and constants; whole_range: the bounds of the type and zero point 0."""
    activations, constants = random_convolution(workload, rng)
    if whole_range:
        constants["scalars"][5:] = (*INTEGER_RANGE[workload.epilogue.out_dtype], 0)
    return activations, constants


def exact_emulated(workload, config, whole_range, target=CUDA):
    assert TEMPLATE.matches(workload, target)
    assert TEMPLATE.space(workload, target).rejection(config) is None
    values, constants = arrays_of(workload, whole_range, np.random.default_rng(5))
    got = emulated(TEMPLATE, workload, config, target, values, constants)
    assert_equal(workload, got, reference(workload, values, constants))


@needs_nvcc
@pytest.mark.parametrize(("workload", "config"), CASES, ids=IDS)
def test_exact_emulated(workload, config):
    exact_emulated(workload, config, False)


@needs_nvcc
@pytest.mark.parametrize(("workload", "config"), TURNS, ids=[str(case[1]) for case in TURNS])
def test_tiles_in_turn_are_exact_emulated(workload, config):
    exact_emulated(workload, config, False, SMALL)


@needs_nvcc
@pytest.mark.parametrize("case", [0, -1], ids=["uint8", "int8"])
def test_shifted_conversion_is_exact_emulated(case):
    """The type's own bounds, and a zero point that is odd."""
    workload, config = CASES[case]
    values, constants = arrays_of(workload, True, np.random.default_rng(6))
    constants["scalars"][5:] = (*(constants["scalars"][5:7] - 7), 7)
    got = emulated(TEMPLATE, workload, config, CUDA, values, constants)
    assert_equal(workload, got, reference(workload, values, constants))


@needs_nvcc
@pytest.mark.parametrize("case", [0, -1], ids=["uint8", "int8"])
def test_saturating_conversion_is_exact_emulated(case):
    exact_emulated(*CASES[case], True)


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("columns", [3, 5])
def test_packed_pairs_are_two_channels_of_two_taps(width, columns):
    """A fifth tap is multiplied alone: its channels are where a word of four has them."""
    c, pairs = 32, (columns + 1) // 2
    workload = Conv2d(1, 8, 8, c, c, 2, columns, groups=c // width)
    _, constants = random_convolution(workload, np.random.default_rng(0))
    packed = TEMPLATE.pack(workload, TEMPLATE.default(workload, CUDA), constants)[0]
    assert packed.shape == (c // 16, 2 * pairs, 16, 4)
    expected = np.zeros_like(packed)
    for k, r, s, e in np.ndindex(c, 2, columns, width):
        second = k % 4 >= 2 if s == 4 else s % 2
        byte = second * 2 + (e if width == 2 else k % 2)
        expected[k // 16, r * pairs + s // 2, k % 16, byte] = constants["weight"][k, r, s, e]
    np.testing.assert_array_equal(packed, expected)


@pytest.mark.parametrize("width", [4, 8, 16, 48])
def test_packed_words_are_the_groups_block_of_a_dense_filter(width):
    """Every 16 outputs: words of the quads that a group touches, zero outside of the group."""
    c = 96
    workload = Conv2d(1, 8, 8, c, c, 2, 3, groups=c // width)
    _, constants = random_convolution(workload, np.random.default_rng(0))
    config = TEMPLATE.default(workload, CUDA)
    packed = TEMPLATE.pack(workload, config, constants)[0]
    units = packed.shape[0] * 16 // c
    dense = np.zeros((c, 2, 3, c), np.int8)
    for block, tap, output, byte in np.ndindex(packed.shape):
        k = block // units * 16 + output
        first_unit = k // 16 // units * units + block % units
        first_quad = output // 4 * 4 // packed.shape[3] * packed.shape[3]
        channel = first_unit * 16 + first_quad + byte
        dense[k, tap // 3, tap % 3, channel] = packed[block, tap, output, byte]
    expected = np.zeros_like(dense)
    for k in range(c):
        start = k // width * width
        expected[k, :, :, start : start + width] = constants["weight"][k]
    np.testing.assert_array_equal(dense, expected)


LAYERS = [
    depthwise(128, 56, 56, 96, 7, 7, padding=(3, 3, 3, 3), epilogue=Epilogue("int8")),
    depthwise(128, 112, 112, 32, 3, 3, **_SAME, in_dtype="uint8", epilogue=Epilogue("uint8")),
    depthwise(8, 14, 14, 672, 5, 5, padding=(2, 2, 2, 2), zero_point_border=True),
    Conv2d(8, 56, 56, 128, 128, 3, 3, **_SAME, groups=32, epilogue=Epilogue("int8", "int8", True)),
]  # fmt: skip


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "arch"), list(zip(LAYERS, ("sm_80", "sm_90a", "sm_90a", "sm_80"), strict=True))
)
def test_compiles_without_spills(workload, arch):
    target = parse_target(f"cuda:{arch}")
    config = TEMPLATE.default(workload, target)
    kernel = compile_kernel(TEMPLATE.build(workload, config, target), target)
    assert kernel.spill_bytes == 0


@needs_nvcc
def test_bounded_blocks_have_registers_to_share_a_multiprocessor():
    """Left alone ptxas takes two registers too many for the second block."""
    target = parse_target("cuda:sm_90a")
    epilogue = Epilogue("uint8")
    workload = Conv2d(128, 28, 28, 192, 192, 3, 3, **_SAME, groups=4, epilogue=epilogue)
    free = GroupedConfig(96, 8, 1, 2, 1, 1, 2)
    limit = register_limit(GroupedTiling(workload, free).threads, 2, target)
    kernels = [
        compile_kernel(TEMPLATE.build(workload, config, target), target)
        for config in (free, dataclasses.replace(free, registers_bounded=True))
    ]
    assert kernels[0].registers > limit >= kernels[1].registers


def test_only_blocks_that_want_more_registers_than_there_are_can_be_bounded():
    target = parse_target("cuda:sm_90a")
    space = TEMPLATE.space(LAYERS[1], target)
    every = GroupedConfig(32, 4, 1, 2, 2, 1, None, True)
    assert space.rejection(every).startswith("bounds_bind: Bounds say something")
    in_turn = dataclasses.replace(every, blocks_per_unit=1)
    assert "bounds_bind" in space.rejection(in_turn), "128 threads can have 255 registers each"
    assert dataclasses.replace(in_turn, registers_bounded=False) in space
    assert dataclasses.replace(in_turn, blocks_per_unit=3) in space


def test_the_default_is_bounded_where_it_can_be():
    target = parse_target("cuda:sm_90a")
    for workload in LAYERS:
        config = TEMPLATE.default(workload, target)
        bounded = dataclasses.replace(config, registers_bounded=True)
        assert config.registers_bounded == (bounded in TEMPLATE.space(workload, target))


@pytest.mark.parametrize("workload", LAYERS, ids=str)
def test_is_tried_from_sm_80_on(workload):
    assert TEMPLATE in matching(workload, CUDA)
    assert TEMPLATE not in matching(workload, parse_target("cuda:sm_75"))


def test_matches():
    workload = LAYERS[1]
    assert not TEMPLATE.matches(dataclasses.replace(workload, groups=1), CUDA)
    assert not TEMPLATE.matches(dataclasses.replace(workload, k=64), CUDA)
    assert not TEMPLATE.matches(dataclasses.replace(workload, c=24, k=24, groups=24), CUDA)
    assert not TEMPLATE.matches(dataclasses.replace(workload, c=192, k=192, groups=2), CUDA)
    assert not TEMPLATE.matches(dataclasses.replace(workload, c=96, k=96, groups=4), CUDA)
    assert not TEMPLATE.matches(dataclasses.replace(workload, r=12, s=12), CUDA)


@pytest.mark.gpu
@pytest.mark.parametrize("workload", [workload for workload, _ in CASES], ids=IDS)
@pytest.mark.parametrize("whole_range", [False, True])
def test_exact_on_gpu(workload, whole_range):
    whole_range = whole_range and workload.epilogue.out_dtype in INTEGER_RANGE
    check_on_gpu(TEMPLATE, workload, *arrays_of(workload, whole_range, np.random.default_rng(9)))


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(12))
def test_random_convolutions_are_exact_on_gpu(seed):
    workload, rng = random_grouped(seed)
    check_on_gpu(TEMPLATE, workload, *arrays_of(workload, seed % 2 == 0, rng))


def random_grouped(seed):
    """A convolution of random shape that the template computes."""
    rng = np.random.default_rng(seed)
    c = 16 * int(rng.integers(1, 13))
    workload = Conv2d(
        n=int(rng.integers(1, 6)),
        h=int(rng.integers(10, 40)),
        w=int(rng.integers(10, 40)),
        c=c,
        k=c,
        r=int(rng.integers(1, 6)),
        s=int(rng.integers(1, 6)),
        stride=tuple(rng.integers(1, 4, 2).tolist()),
        padding=tuple(rng.integers(0, 4, 4).tolist()),
        dilation=tuple(rng.integers(1, 3, 2).tolist()),
        groups=c
        // int(rng.choice([w for w in (1, 2, 4, 8, 16, 32, 48, 64) if w < c and c % w == 0])),
        in_dtype=str(rng.choice(["int8", "uint8"])),
        zero_point_border=bool(rng.integers(2)),
        epilogue=Epilogue(str(rng.choice(["int8", "uint8"])), rng.choice([None, "int8"]), False),
    )
    return workload, rng
