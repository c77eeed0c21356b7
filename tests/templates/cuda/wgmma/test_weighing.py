"""What the epilogue of a product finds besides it, on the emulator: weighed rows and columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ptx.kernels import MODES, run_program
from with_nvcc import needs_nvcc

from autoq.templates.cuda.device.residual.parts_of_sums import ROUGH_COLUMN, ROUGH_ROW
from autoq.templates.cuda.wgmma import gemm_wgmma
from autoq.templates.cuda.wgmma.config import Grid, Shared, SplitTeam
from autoq.templates.cuda.wgmma.weighing import weighing_of
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import parse_target

HOPPER = parse_target("cuda:sm_90a")
IN_TURN = {"block_n": 64, "m_blocks": 2, "team": SplitTeam(2, False), "stages": 3,
           "blocks_per_unit": 1}  # fmt: skip
"""Consumers take tiles in turn."""


def _product(m: int, n: int, k: int) -> Gemm:
    return Gemm(m, n, k, epilogue=Epilogue("int32"))


TOGETHER = {**IN_TURN, "m_blocks": 1, "team": SplitTeam(2, True)}
"""Consumers share tiles, and sums are in single precision."""


@needs_nvcc
@pytest.mark.parametrize(
    ("product", "knobs"),
    [
        (_product(2300, 1021, 64), {**TOGETHER, "most_channels": 4, "m_blocks": 2}),
        (
            _product(4096, 1030, 160),
            {
                **TOGETHER,
                "block_n": 256,
                "grid": Grid(True, 2, Shared.WEIGHTS),
                "stages": 4,
                "weights_stay": False,
            },
        ),
        (_product(4096, 1030, 48), {**IN_TURN, "stages": 4, "grid": Grid(True, 2, Shared.WEIGHTS)}),
        (_product(2200, 1021, 48), {**IN_TURN, "most_channels": 4}),
        (_product(2176, 1024, 64), {**IN_TURN, "most_channels": 16}),
    ],
)
def test_sums_are_those_of_the_product(product: Gemm, knobs: dict[str, Any]) -> None:
    config = replace(gemm_wgmma.default(product, HOPPER), **knobs)
    assert config in gemm_wgmma.space(product, HOPPER)
    rough = knobs["team"].cooperative
    program = gemm_wgmma.weighed(product, config, HOPPER, rough)
    assert program is not None
    rng = np.random.default_rng(3)
    x = rng.integers(-128, 128, product.x_shape, np.int8)
    weight = rng.integers(-128, 128, product.weight_shape, np.int8)
    rows, columns = (rng.random(n, np.float32) for n in (product.m, product.n))
    rows[5] = columns[7] = 0
    packed, bias = gemm_wgmma.pack(
        product, config, {"weight": weight, "bias": np.zeros(product.n, np.int32)}
    )
    arrays = {"x": x, "weight": packed, "bias": bias, "a_scale": rows, "b_scale": columns}
    given = [*program.workspaces]
    outputs = {"y": (product.y_shape, "int32")} | {
        space.spec.name: (space.spec.shape, "float32" if rough else "float64") for space in given
    }
    near = (ROUGH_ROW, ROUGH_COLUMN) if rough else (1e-13, 1e-13)
    expected = x.astype(np.int32) @ weight.astype(np.int32).T
    sizes = np.abs(expected).astype(np.float64)
    for mode in MODES.values():
        found = run_program(replace(program, workspaces=()), HOPPER, arrays, outputs, mode,
                            {"weight", "bias"})  # fmt: skip
        np.testing.assert_array_equal(found["y"], expected)
        of_rows, of_columns = (found[name].sum(axis=0, dtype=np.float64)
                               for name in ("row_parts", "column_parts"))  # fmt: skip
        np.testing.assert_allclose(of_rows, sizes @ columns, rtol=near[0])
        np.testing.assert_allclose(of_columns, rows @ sizes, rtol=near[1])


def test_products_in_parts_are_not_weighed() -> None:
    product = _product(512, 512, 1024)
    config = gemm_wgmma.default(product, HOPPER)
    whole = replace(config, **IN_TURN, grid=Grid(True), stream_k=False, tail_stages=0)
    assert weighing_of(product, whole, HOPPER) is not None
    for knobs in (
        {"stream_k": True},
        {"tail_stages": 2},
        {"grid": Grid(False, 2, Shared.REDUCTION)},
        {"stages": 13},
        {"blocks_per_unit": 2},
        {"team": SplitTeam(2, True)},
    ):
        assert weighing_of(product, replace(whole, **knobs), HOPPER) is None, knobs
    together = replace(whole, team=SplitTeam(2, True))
    found = weighing_of(product, together, HOPPER, rough=True)
    assert found is not None and found.rough
    assert not weighing_of(product, whole, HOPPER, rough=True).rough
