"""Lists of bands on the emulator: every value above its cut once, in the order that meets banks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ptx.kernels import run_program
from with_nvcc import needs_nvcc

from autoq.templates.cuda.device.residual.bands import BAND, NOWHERE, STEP
from autoq.templates.cuda.wgmma import residual_gemm_wgmma
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.oracle.residual_quantisation import quantise
from autoq.templates.target import parse_target

HOPPER = parse_target("cuda:sm_90a")
TEMPLATE = residual_gemm_wgmma.TEMPLATE


def _entries(steps: np.ndarray) -> np.ndarray:
    """k, value, owner and place modulo 8 among those that ldmatrix reads together: [entries, 4]."""
    fours = steps.view(np.uint8).reshape(-1, 16)
    k = fours[:, :8].copy().view(np.uint16).astype(np.int32)
    value, owner = fours[:, 8:12].view(np.int8), fours[:, 12:]
    place = np.arange(len(fours))[:, None] % 4 * 2 + np.arange(4) % 2
    return np.stack([k, value, owner, place], axis=-1).reshape(-1, 4)


@needs_nvcc
@pytest.mark.parametrize("threshold", [0.8, 0.5], ids=["a few", "nearly half"])
def test_lists_hold_every_value_above_its_cut(threshold: float) -> None:
    workload = ResidualGemm(70, 133, 600)
    config = replace(TEMPLATE.default(workload, HOPPER), bands=True, share=1.0)
    inputs, constants = workload.random_case(np.random.default_rng(5))
    constants |= {"threshold": np.array([threshold], np.float32),
                  "crossover": np.ones(1, np.float32)}  # fmt: skip
    specs = TEMPLATE.packed(workload, config)
    packed = TEMPLATE.constants(workload, config, constants)
    arrays = {spec.name: array for spec, array in zip(specs, packed, strict=True)}
    arrays |= {spec.name: array for spec, array in zip(workload.inputs, inputs, strict=True)}
    program = TEMPLATE.program(workload, config, HOPPER)
    wanted = ("entries_of_a", "rows_of_a", "entries_of_b", "columns_of_b", "row_cuts",
              "column_cuts")  # fmt: skip
    spaces = {space.spec.name: space.spec for space in program.workspaces}
    outputs = {name: (spaces[name].shape, spaces[name].dtype) for name in wanted}
    others = tuple(space for space in program.workspaces if space.spec.name not in wanted)
    outputs["y"] = ((70, 133), "float32")
    found = run_program(replace(program, workspaces=others), HOPPER, arrays, outputs,
                        constants={spec.name for spec in specs})  # fmt: skip
    sides = (
        ("entries_of_a", "rows_of_a", "row_cuts", quantise(inputs[0], 8, 1).values, NOWHERE),
        ("entries_of_b", "columns_of_b", "column_cuts", quantise(inputs[1], 8, 0).values.T, 0),
    )
    for entries, bands, cuts, values, filling in sides:
        for band, (first, count) in enumerate(found[bands]):
            listed = _entries(found[entries][first * STEP : (first + count) * STEP])
            real = listed[listed[:, 1] != 0]
            rows = np.arange(band * BAND, min((band + 1) * BAND, len(values)))
            above = np.abs(values[rows].astype(int)) > found[cuts][rows, None]
            owner, k = np.nonzero(above)
            expected = np.stack([k, values[rows][above], owner], axis=-1)
            assert sorted(map(tuple, real[:, :3])) == sorted(map(tuple, expected))
            assert count == -(-len(expected) // STEP)
            assert (listed[listed[:, 1] == 0, 0] == filling).all()
            in_place = np.bincount(k % 8, minlength=8).clip(max=count * STEP // 8).sum()
            assert np.count_nonzero(real[:, 0] % 8 == real[:, 3]) >= in_place
