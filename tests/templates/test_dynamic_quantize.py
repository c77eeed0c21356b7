"""Quantisation by the range of an array: on the emulator, on a GPU, on the CPU, and its edges."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_kernels import end_if_compile_only
from ptx.kernels import assert_right_emulated
from with_nvcc import needs_nvcc

import autoq
from autoq.errors import InputError
from autoq.templates.cuda.movement import dynamic_quantize
from autoq.templates.cuda.movement.dynamic_quantize import TEMPLATE
from autoq.templates.cuda.movement.dynamic_quantize import ThreadConfig as Threads
from autoq.templates.operators.dynamic_quantize import DynamicQuantize
from autoq.templates.target import parse_target

SIZES = [1, 7, 1024, 5001, 400_000, 1_000_003]


@needs_nvcc
@pytest.mark.parametrize(
    ("size", "threads", "arch", "held"),
    [(1, 64, "sm_75", 4), (40_000, 64, "sm_90a", 4), (5001, 512, "sm_90a", 4), (7, 64, "sm_75", 0),
     (40_004, 512, "sm_90a", 0)],
)  # fmt: skip
def test_every_byte_is_right_on_the_emulator(size, threads, arch, held, monkeypatch):
    """Arrays that registers hold, and with held = 0 as larger ones are."""
    monkeypatch.setattr(dynamic_quantize, "_HELD", held)
    monkeypatch.setattr(dynamic_quantize, "_MOST_HELD", held)
    workload, target = DynamicQuantize(size), parse_target(f"cuda:{arch}")
    program = TEMPLATE.program(workload, Threads(threads), target)
    assert len(program.stages) == (1 if held else 2)
    assert_right_emulated(TEMPLATE, workload, Threads(threads), target)


def _values(size):
    x = np.random.default_rng(size).standard_normal(size).astype(np.float32)
    ties = np.resize(np.float32([0, 255, 0.5, 1.5, 2.5, 101.5, -0.5]), size)
    nan = x.copy()
    nan[-1] = np.nan
    return [x, np.abs(x) + 1, -np.abs(x) - 1, 0 * x, ties, 1e-30 * x, 1e-42 * x, nan]


def _assert_right(target):
    for size in SIZES:
        workload = DynamicQuantize(size)
        compiled = autoq.operator(workload, target=target)
        for x in _values(size):
            found, numbers = compiled(x), ~np.isnan(x)
            with np.errstate(invalid="ignore"):
                wanted = workload.reference([x], {})
            for made, expected in zip(found, wanted, strict=True):
                made = np.asarray(made)
                kept = numbers if made.size == size else slice(None)
                np.testing.assert_array_equal(made[kept], expected[kept])


def test_every_byte_is_right_on_the_cpu():
    _assert_right("cpu")


@pytest.mark.gpu
def test_every_byte_is_right():
    end_if_compile_only()
    _assert_right("cuda")


def test_an_array_without_elements_is_refused():
    with pytest.raises(InputError, match="size"):
        DynamicQuantize(0)
