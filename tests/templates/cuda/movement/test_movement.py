"""Templates limited by memory: exact on the emulator, compiled for every arch, exact on a GPU."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from kernel_runs import assert_equal, check_on_gpu, emulated
from movement_cases import (
    ADDS,
    CASES,
    CONCATS,
    DEQUANTIZES,
    FOUR_BITS,
    LOOKUPS,
    POOLS,
    QUANTIZES,
    RELAYOUTS,
    TEMPLATES,
    case_id,
    random_movement,
)
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

from autoq.kernel import compile_kernel
from autoq.kernel.host_launches import host_launches
from autoq.kernel.lowering import cuda_source, lower
from autoq.templates.cuda.movement import add, concat, pool2d, quantize
from autoq.templates.operators.add import Add
from autoq.templates.operators.concat import Concat
from autoq.templates.operators.pool2d import Pool2d
from autoq.templates.operators.quantize import Quantize
from autoq.templates.oracle.reference import reference
from autoq.templates.target import parse_target

CUDA = parse_target("cuda:sm_75")
ARCHS = ("sm_75", "sm_80", "sm_90a")
COMPILED = (POOLS[0], POOLS[9], POOLS[14], ADDS[0], CONCATS[1], QUANTIZES[0], DEQUANTIZES[0],
            LOOKUPS[0], LOOKUPS[3], RELAYOUTS[0], FOUR_BITS[0], FOUR_BITS[6])  # fmt: skip


def exact_emulated(workload, arch, config=None):
    target, template = parse_target(f"cuda:{arch}"), TEMPLATES[type(workload)]
    assert template.matches(workload, target)
    config = config or template.default(workload, target)
    assert config in template.space(workload, target)
    activations, constants = random_movement(workload, np.random.default_rng(7))
    got = emulated(template, workload, config, target, activations, constants)
    assert_equal(workload, got, reference(workload, activations, constants))


@needs_nvcc
@pytest.mark.parametrize("workload", CASES, ids=case_id)
def test_exact_emulated(workload):
    exact_emulated(workload, "sm_75")


SCALED = (
    CONCATS[2],
    Concat(37, (24, 8), ("uint8", "uint8"), (True, False), "uint8", "int8"),
    Concat(9, (6, 5), ("int8", "uint8"), (True, True), "int8", "uint8"),
)


@needs_nvcc
@pytest.mark.parametrize("threads", [0, 1024])
@pytest.mark.parametrize("workload", SCALED, ids=case_id)
def test_concatenations_of_several_rows_a_thread_are_exact(workload, threads, monkeypatch):
    monkeypatch.setattr(concat, "_FITTED_THREADS", threads)
    target = parse_target("cuda:sm_75")
    config = concat.TEMPLATE.default(workload, target)
    assert_right_emulated(concat.TEMPLATE, workload, config, target)


MISSING = {
    "max_pool": Pool2d("max", 1, 6, 7, 8, 3, 3, in_dtype="float32", out_dtype="float32"),
    "add": Add((2, 3, 4, 8), "float32", "float32", "float32"),
    "add_quantised": Add((2, 3, 4, 8), "int8", "float32", "int8"),
}


@needs_nvcc
@pytest.mark.parametrize("name", MISSING)
def test_nan_comes_out_where_it_goes_in(name):
    """Quantised, it is the least value, as in onnxruntime."""
    workload = MISSING[name]
    template = TEMPLATES[type(workload)]
    activations, constants = random_movement(workload, np.random.default_rng(7))
    for array in activations:
        if array.dtype == np.float32:
            array.reshape(-1)[::11] = np.nan
            array.reshape(-1)[5::37] = np.inf
    with np.errstate(invalid="ignore"):
        expected = reference(workload, activations, constants)
    config = template.default(workload, CUDA)
    got = emulated(template, workload, config, CUDA, activations, constants)
    assert_equal(workload, got, expected)
    assert expected.dtype != np.float32 or 0 < np.isnan(expected).mean() < 1


@needs_nvcc
@pytest.mark.parametrize("workload", [POOLS[0], POOLS[1], POOLS[3], *FOUR_BITS[:3]], ids=case_id)
def test_halfword_maximum_is_exact(workload):
    exact_emulated(workload, "sm_90a")


@needs_nvcc
@pytest.mark.parametrize("tile_w", [1, 4, 32])
def test_pool_patches_cover_the_image(tile_w):
    exact_emulated(POOLS[5], "sm_75", pool2d.PoolConfig(64, tile_w))


@needs_nvcc
@pytest.mark.parametrize(
    ("workload", "arch"),
    [(workload, ARCHS[i % len(ARCHS)]) for i, workload in enumerate(COMPILED)],
    ids=case_id,
)
def test_compiles_without_spills(workload, arch):
    target, template = parse_target(f"cuda:{arch}"), TEMPLATES[type(workload)]
    kernel = compile_kernel(
        template.build(workload, template.default(workload, target), target), target
    )
    assert kernel.spill_bytes == 0
    assert kernel.registers <= 80


@pytest.mark.gpu
@pytest.mark.parametrize("workload", CASES, ids=case_id)
def test_exact_on_gpu(workload):
    check_on_gpu(TEMPLATES[type(workload)], workload, *random_movement(
        workload, np.random.default_rng(11)
    ))  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(20))
def test_random_pools_are_exact_on_gpu(seed):
    rng = np.random.default_rng(seed)
    r, s = rng.integers(1, 6, 2).tolist()
    workload = Pool2d(
        kind=str(rng.choice(["max", "average"])),
        n=int(rng.integers(1, 4)),
        h=int(rng.integers(r, 40)),
        w=int(rng.integers(s, 40)),
        c=int(rng.integers(1, 200)),
        r=r,
        s=s,
        stride=tuple(rng.integers(1, 4, 2).tolist()),
        padding=tuple(int(rng.integers(0, reach)) for reach in (r, s, r, s)),
        count_include_pad=bool(rng.integers(2)),
        in_dtype=str(rng.choice(["int8", "uint8"])),
        requantize=True,
    )
    check_on_gpu(TEMPLATES[Pool2d], workload, *random_movement(workload, rng))


def test_a_cluster_shares_a_window_of_many_pixels():
    """One block an image would leave the device idle: a launch of 112x112x32 has 64 blocks."""
    target = parse_target("cuda:sm_90a")
    launches = {}
    for size, channels in ((112, 32), (56, 144), (28, 512), (7, 1280)):
        workload = Pool2d("average", 8, size, size, channels, size, size)
        config = pool2d.TEMPLATE.default(workload, target)
        function = pool2d.TEMPLATE.build(workload, config, target)
        (launch,), _ = host_launches(lower(function, target).host["main"], len(function.params))
        launches[size] = (launch.grid[0], launch.cluster[0])
    assert launches == {112: (64, 8), 56: (64, 8), 28: (64, 1), 7: (80, 1)}


@pytest.mark.parametrize("workload", POOLS[-5:], ids=case_id)
def test_a_cluster_meets_once_and_waits_for_all_bytes(workload):
    """No block reads another one's shared memory, and the one that is written to waits."""
    target = parse_target("cuda:sm_90a")
    config = pool2d.TEMPLATE.default(workload, target)
    source = cuda_source(lower(pool2d.TEMPLATE.build(workload, config, target), target), target)
    counts = [source.count(text) for text in
              ("cluster.arrive", "cluster.wait", "st.async", "ld.shared::cluster")]  # fmt: skip
    assert counts == [1, 1, 1, 0]
    inbox = source.index("arrive.expect_tx"), source.index("cluster.arrive")
    assert inbox[0] < inbox[1]
    assert source.count("mbarrier.try_wait") == 1


def test_pool_refuses_windows_outside_the_image():
    touching = Pool2d("max", 1, 4, 4, 8, 3, 3, (3, 3), (0, 0, 4, 4))
    outside = dataclasses.replace(touching, padding=(0, 0, 5, 5))
    assert pool2d.TEMPLATE.matches(touching, CUDA)
    assert not pool2d.TEMPLATE.matches(outside, CUDA)


def test_templates_refuse_what_they_would_get_wrong():
    cpu = dataclasses.replace(CUDA, kind="cpu")
    assert not any(TEMPLATES[type(case)].matches(case, cpu) for case in CASES)
    mixed = Pool2d("max", 1, 4, 4, 8, 2, 2, in_dtype="uint8", out_dtype="int8")
    assert not pool2d.TEMPLATE.matches(mixed, CUDA)
    assert not add.TEMPLATE.matches(Add((4,), "int8", "int8", "float32"), CUDA)
    copied = Concat(2, (4, 4), ("int8", "uint8"), (False, False))
    assert not concat.TEMPLATE.matches(copied, CUDA)
    assert not quantize.TEMPLATE.matches(Quantize(1, 5, 4, 3, 16, 2), CUDA)
    assert not quantize.TEMPLATE.matches(Quantize(1, 4, 4, 3, 8, 2), CUDA)
    assert not add.TEMPLATE.matches(Add((1 << 16, 1 << 16)), CUDA)


def test_rows_that_end_within_a_byte_are_refused():
    """A thread would write half of another's byte."""
    odd = Pool2d("max", 1, 4, 4, 7, 2, 2, in_dtype="int4", out_dtype="int4")
    assert not pool2d.TEMPLATE.matches(odd, CUDA)
    assert not add.TEMPLATE.matches(Add((4, 7), "int8", "int8", "int4"), CUDA)
    assert not add.TEMPLATE.matches(Add((4, 7), "int8", "int4", "int8"), CUDA)
    halves = Concat(2, (3, 5), ("int4", "int4"), (False, False), "int4")
    assert not concat.TEMPLATE.matches(halves, CUDA)
