"""Attention of floats against float64, over lengths 1 to 8192, masks, and rows masked whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gpu_kernels import compiled, gpu_target
from ptx.kernels import run_program
from with_nvcc import needs_nvcc

from autoq.measure.arrays import random_case, stored_activations, stored_outputs
from autoq.measure.check import complaints
from autoq.measure.cuda_bench import CudaBench
from autoq.runtime.cuda.driver import Device
from autoq.templates.base import Template
from autoq.templates.cuda.attention import attention_mma_sync
from autoq.templates.cuda.attention.wgmma import attention_wgmma
from autoq.templates.operators.attention import Attention
from autoq.templates.target import Target, parse_target

TEMPLATES = [attention_mma_sync.TEMPLATE, attention_wgmma.TEMPLATE]
LEAST = np.finfo(np.float32).min
KINDS = ("plain", "causal", "padded", "hidden")
SHORT = [(1, 1), (65, 130)]
LONG = [(1, 8192), (63, 64), (197, 197), (384, 384), (1000, 1001), (4096, 4096), (8192, 8192)]


def case_of(kind: str, queries: int, keys: int) -> tuple[Attention, list[np.ndarray], dict]:
    """Attention of two heads, or of one that is long.

    padded: the last third of the keys is hidden; hidden: besides, all keys of every third query
    are, by the least of floats, so that each has the same share.
    """
    workload = Attention(1, 2 if keys < 4096 else 1, queries, keys, 64, out_dtype="float32")
    if kind == "causal":
        workload = replace(workload, causal=True)
    elif kind != "plain":
        workload = replace(workload, mask_axes="n" if kind == "padded" else "mn")
    (*arrays,), constants = random_case(workload, queries + keys)
    if workload.mask_axes:
        mask = np.zeros(workload.mask_shape, np.float32)
        mask[..., keys - keys // 3 :] = -np.inf if kind == "padded" else LEAST
        if kind == "hidden":
            mask[..., ::3, :] = LEAST
        arrays[3] = mask
    return workload, arrays, constants


def exact(workload: Attention, arrays: list[np.ndarray], constants: dict) -> np.ndarray:
    """y in float64, 256 queries at a time; a mask is added in float32, which swallows scores."""
    q, k, v = (array.astype(np.float64) for array in arrays[:3])
    y = np.empty(workload.outputs[0].shape, np.float32)
    for start in range(0, workload.queries, 256):
        rows = slice(start, start + 256)
        z = q[:, :, rows] @ k.transpose(0, 1, 3, 2) * float(constants["scalars"][0])
        if workload.mask_axes:
            mask = arrays[3][:, :, rows] if "m" in workload.mask_axes else arrays[3]
            z = np.where(mask == LEAST, LEAST, z + mask)
        if workload.causal:
            query = np.arange(workload.queries)[rows, None] + workload.keys - workload.queries
            z = np.where(np.arange(workload.keys) > query, -np.inf, z)
        powers = np.exp(z - z.max(axis=-1, keepdims=True))
        y[:, :, rows] = powers / powers.sum(axis=-1, keepdims=True) @ v
    return y


@needs_nvcc
@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
@pytest.mark.parametrize("kind", KINDS)
def test_short_rows_are_as_float64_says(template: Template, kind: str) -> None:
    target = parse_target("cuda:sm_90a")
    for queries, keys in SHORT:
        workload, arrays, constants = case_of(kind, queries, keys)
        config = template.default(workload, target)
        specs = (*workload.inputs, *template.packed(workload, config))
        given = (*arrays, *template.pack(workload, config, constants))
        inputs = {spec.name: array for spec, array in zip(specs, given, strict=True)}
        outputs = {spec.name: spec.stored for spec in workload.outputs}
        program = template.program(workload, config, target)
        found = run_program(program, target, inputs, outputs)
        assert complaint(workload, arrays, constants, found["y"], target) is None


@pytest.mark.gpu
@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("queries", "keys"), [*SHORT, *LONG], ids=str)
def test_rows_on_a_gpu_are_as_float64_says(
    template: Template, kind: str, queries: int, keys: int
) -> None:
    target = gpu_target()
    workload, arrays, constants = case_of(kind, queries, keys)
    if not template.matches(workload, target):
        pytest.skip(f"{template.name} is not for {target.arch}")
    config = template.default(workload, target)
    (kernel,) = compiled(template, workload, [(config, target)], target)
    expected = stored_outputs(workload, (np.zeros(workload.outputs[0].shape, np.float32),))
    bench = CudaBench(Device(), stored_activations(workload, arrays), expected)
    (y,) = bench.load(kernel, template.pack(workload, config, constants)).run_over(0x55)
    assert complaint(workload, arrays, constants, y, target) is None


def complaint(
    workload: Attention, arrays: list[np.ndarray], constants: dict, y: np.ndarray, target: Target
) -> str | None:
    """What is wrong with y, to the operator's tolerance."""
    return complaints([y], [exact(workload, arrays, constants)], workload, target)
