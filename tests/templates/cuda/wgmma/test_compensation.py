"""Products whose tiles are corrected by lists before they are stored, on the emulator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ptx.kernels import MODES, run_program
from with_nvcc import needs_nvcc

from autoq.templates.cuda.device.residual.turned import turned
from autoq.templates.cuda.device.residual.value_steps import value_steps
from autoq.templates.cuda.wgmma import gemm_wgmma
from autoq.templates.cuda.wgmma.compensation.compensation import compensation_of
from autoq.templates.cuda.wgmma.config import Grid, Shared, SplitTeam
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.gemm import Gemm
from autoq.templates.oracle.residual_quantisation import compensated
from autoq.templates.target import parse_target

HOPPER = replace(parse_target("cuda:sm_90a"), units=4)
"""Each block takes several tiles."""
TOGETHER = {"block_n": 256, "m_blocks": 1, "team": SplitTeam(2, True), "stages": 4,
            "grid": Grid(True, 2, Shared.WEIGHTS), "weights_stay": False, "most_channels": 4,
            "blocks_per_unit": 1, "early_loads": 0, "row_bytes": 128, "per_stage": 1,
            "tail_stages": 0, "stream_k": False}  # fmt: skip


def panels(residual: np.ndarray, rows: int) -> np.ndarray:
    """Residuals of a as the product gathers them: of each k so many rows together."""
    m, k = residual.shape
    whole = np.zeros((-(-m // rows) * rows, k), np.int8)
    whole[:m] = residual
    order = np.arange(16) // 2 + np.arange(16) % 2 * 8
    banded = whole.reshape(-1, rows // 16, 16, k)[:, :, order]
    return np.ascontiguousarray(banded.reshape(-1, rows, k).transpose(0, 2, 1))


def some(rng: np.random.Generator, values: np.ndarray, share: float) -> np.ndarray:
    """Of values some, more of the first ones, and none of the last."""
    there = rng.random(values.shape) < share
    there[: len(there) // 8] = rng.random(there[: len(there) // 8].shape) < 4 * share
    there[-40:] = False
    return np.where(there, values, np.int8(0))


@needs_nvcc
@pytest.mark.parametrize(
    ("m", "n", "k", "share", "knobs"),
    [
        (512, 512, 400, 0.02, {}),
        (1300, 453, 272, 0.05, {"stages": 3, "grid": Grid(True)}),
    ],
)
def test_lists_are_added(m: int, n: int, k: int, share: float, knobs: dict[str, Any]) -> None:
    product = Gemm(m, n, k, epilogue=Epilogue("int32"))
    config = replace(gemm_wgmma.default(product, HOPPER), **{**TOGETHER, **knobs})
    assert config in gemm_wgmma.space(product, HOPPER)
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-127, 128, shape).astype(np.int8) for shape in ((m, k), (n, k)))
    of_a, of_b = (rng.integers(-127, 128, shape).astype(np.int8) for shape in ((m, k), (n, k)))
    some_a, some_b = some(rng, a, share), some(rng, b, share)
    steps_a, bands_a = value_steps(some_a, False)
    steps_b, bands_b = value_steps(some_b, True)
    compensation = compensation_of(
        product, config, k, 127, True, (len(steps_a), len(steps_b)), config.stages == 3
    )
    assert compensation is not None
    program = gemm_wgmma.compensated(product, config, HOPPER, compensation)
    rows, columns = (rng.random(extent, np.float32) for extent in (m, n))
    bias = rng.standard_normal(n, np.float32)
    packed, none = gemm_wgmma.pack(product, config, {"weight": b, "bias": np.zeros(n, np.int32)})
    arrays = {
        "x": a, "weight": packed, "no_bias": none, "a_scale": rows, "b_scale": columns,
        "bias": bias, "b_turned": turned(of_b), "a_panels": panels(of_a, config.block_m),
        "steps_of_a": steps_a, "bands_of_a": bands_a, "steps_of_b": steps_b,
        "bands_of_b": bands_b,
    }  # fmt: skip

    def exact(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return left.astype(np.int32) @ right.astype(np.int32).T

    expected = (
        compensated(
            exact(a, b), exact(some_a, of_b) + exact(of_a, some_b), rows[:, None], columns[None], 8
        )
        + bias
    )
    for mode in MODES.values():
        found = run_program(
            replace(program, workspaces=()), HOPPER, arrays, {"y": ((m, n), "float32")}, mode
        )
        np.testing.assert_allclose(found["y"], expected, rtol=0, atol=1e-6 * np.abs(expected).max())
