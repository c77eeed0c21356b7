"""Tile-wise products on the CPU against the numpy reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cpu_kernels import check, host

from autoq.templates.cpu.tile_wise.config import TileWiseCpuConfig
from autoq.templates.cpu.tile_wise.gemm_tile_wise_direct import TEMPLATE as DIRECT
from autoq.templates.cpu.tile_wise.gemm_tile_wise_vnni import TEMPLATE as VNNI
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.gemm import Gemm
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import Target

CLASS = Sparsity("tw", 64, 160, Structure(320, 112, 160))
WORKLOAD = Gemm(37, 301, 200, sparsity=CLASS)
CASES = (
    (WORKLOAD, None),
    (
        replace(WORKLOAD, in_dtype="uint8", epilogue=Epilogue("uint8", "int8", True)),
        TileWiseCpuConfig(4, 3, 2),
    ),
    (
        replace(WORKLOAD, epilogue=Epilogue("float32", row_scale=True, float_bias=True)),
        TileWiseCpuConfig(2, 1, 4),
    ),
    (replace(WORKLOAD, weight_dtype="uint8", epilogue=Epilogue("int32")), None),
    (
        replace(WORKLOAD, in_dtype="float32", weight_dtype="float32",
                epilogue=Epilogue("float32", "float32")),
        None,
    ),
    (replace(WORKLOAD, n=9, sparsity=replace(CLASS, granularity=4)), None),
    (replace(WORKLOAD, sparsity=Sparsity("tw", 8, 0, Structure(0, 0, 0))), None),
    (replace(WORKLOAD, m=1, sparsity=replace(CLASS, granularity=1)), None),
)  # fmt: skip


@pytest.mark.parametrize(("workload", "config"), CASES, ids=str)
def test_every_template_is_exact(workload: Gemm, config: TileWiseCpuConfig | None) -> None:
    case = workload.random_case(np.random.default_rng(2))
    taken = [template for template in (DIRECT, VNNI) if template.matches(workload, host())]
    assert DIRECT in taken
    for template in taken:
        assert config is None or config in template.space(workload, host())
        check(template, workload, *case, config)


def test_what_they_decline() -> None:
    server = Target("cpu", "znver5", units=2, vnni=True, avx512=True, avx2=True)
    assert DIRECT.matches(WORKLOAD, server) and VNNI.matches(WORKLOAD, server)
    assert not VNNI.matches(replace(WORKLOAD, weight_dtype="uint8"), server)
    for other in (WORKLOAD.dense, replace(WORKLOAD, epilogue=Epilogue("int8", table=True))):
        assert not DIRECT.matches(other, server) and not VNNI.matches(other, server)
