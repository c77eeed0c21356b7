"""Workloads that exercise every path of the wgmma templates."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from autoq.templates.cuda.wgmma import conv2d_im2col, conv2d_tap, gemm_wgmma
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.gemm import Gemm
from autoq.templates.target import parse_target

TARGET = parse_target("cuda:sm_90a")
TEMPLATES = {
    module.TEMPLATE.name: module.TEMPLATE for module in (gemm_wgmma, conv2d_im2col, conv2d_tap)
}

EPILOGUES = {
    "s8": Epilogue(),
    "u8": Epilogue("uint8"),
    "s32": Epilogue("int32"),
    "f32": Epilogue("float32"),
    "s8+s8": Epilogue("int8", "int8"),
    "u8+s8 requantised": Epilogue("uint8", "int8", True),
    "s8+u8 requantised": Epilogue("int8", "uint8", True),
    "s8+f32": Epilogue("int8", "float32"),
    "f32+u8": Epilogue("float32", "uint8"),
    "u8 beside u8": Epilogue("uint8", "uint8", True, concatenates=True),
}

GEMMS = [
    Gemm(1, 1000, 512),
    Gemm(8, 1000, 2048, in_dtype="uint8"),
    Gemm(300, 100, 48, epilogue=EPILOGUES["s8+s8"]),
    Gemm(129, 7, 16, epilogue=EPILOGUES["f32"]),
    Gemm(517, 132, 272, in_dtype="uint8", epilogue=EPILOGUES["u8+s8 requantised"]),
    Gemm(200, 64, 1040, epilogue=EPILOGUES["s32"]),
    Gemm(3000, 256, 64, epilogue=EPILOGUES["s8+u8 requantised"]),
    Gemm(6272, 128, 64, in_dtype="uint8", epilogue=EPILOGUES["u8 beside u8"]),
]


def _square(n: int, size: int, c: int, k: int, stride: int = 1, **more: object) -> Conv2d:
    return Conv2d(n, size, size, c, k, 3, 3, (stride, stride), (1, 1, 1, 1), **more)


CONVOLUTIONS = [
    _square(2, 56, 64, 64),
    _square(3, 14, 256, 256, zero_point_border=True, epilogue=EPILOGUES["s8+s8"]),
    _square(3, 7, 512, 512, in_dtype="uint8", epilogue=EPILOGUES["u8"]),
    _square(2, 28, 128, 128, 2, epilogue=EPILOGUES["s32"]),
    _square(2, 29, 96, 40, 2, in_dtype="uint8", zero_point_border=True, border_bias=True,
            epilogue=EPILOGUES["u8+s8 requantised"]),
    Conv2d(2, 28, 28, 64, 256, 1, 1, epilogue=EPILOGUES["s8+s8"]),
    Conv2d(2, 28, 28, 64, 128, 1, 1, (2, 2)),
    Conv2d(2, 57, 57, 16, 64, 4, 4, (1, 1), (2, 2, 1, 1), zero_point_border=True),
    Conv2d(2, 13, 11, 48, 72, 3, 3, (2, 1), (1, 2, 0, 1), (2, 1), in_dtype="uint8",
           zero_point_border=True, epilogue=EPILOGUES["s8+f32"]),
    Conv2d(1, 19, 23, 32, 20, 5, 3, (1, 2), (2, 0, 3, 2), epilogue=EPILOGUES["f32+u8"]),
    Conv2d(2, 17, 17, 16, 24, 3, 3, (3, 3), (0, 0, 0, 0), (1, 2), epilogue=EPILOGUES["f32"]),
    Conv2d(1, 9, 9, 80, 6, 3, 3, (1, 1), (1, 1, 1, 1), in_dtype="uint8", zero_point_border=True),
]  # fmt: skip

CASES = [
    (name, workload)
    for name, template in TEMPLATES.items()
    for workload in (*GEMMS, *CONVOLUTIONS)
    if template.matches(workload, TARGET)
]


SHARING = [
    Gemm(96, 256, 2048, epilogue=EPILOGUES["s8+s8"]),
    Gemm(200, 192, 1040, in_dtype="uint8", epilogue=EPILOGUES["f32"]),
    _square(3, 14, 256, 256, zero_point_border=True, epilogue=EPILOGUES["s8"]),
    _square(2, 15, 144, 72, 2, in_dtype="uint8", epilogue=EPILOGUES["u8+s8 requantised"]),
    _square(3, 7, 512, 512, epilogue=EPILOGUES["s32"]),
]


def shared_cases(each: int) -> list[tuple[str, Gemm | Conv2d, Any]]:
    """`few_shared` of every template and workload of SHARING."""
    return [
        (name, workload, config)
        for name, template in TEMPLATES.items()
        for workload in SHARING
        if template.matches(workload, TARGET)
        for config in few_shared(template.space(workload, TARGET), each)
    ]


def few_shared(space: Any, each: int) -> list[Any]:
    """Random configurations whose blocks or consumers share work: `each` of each kind there is.

    A kind is a cluster and how many groups of consumers split k. 1000 draws a grid and team that
    find no legal configuration say that there is none.
    """
    rng = np.random.default_rng(11)
    kinds: dict[Any, list[Any]] = {}
    for grid, team in itertools.product(space.knobs["grid"], space.knobs["team"]):
        if grid.cluster * team.k_groups == 1:
            continue
        found = kinds.setdefault((grid.cluster, grid.shared, team.k_groups), [])
        if len(found) < each:
            these = space.restricted({"grid": (grid,), "team": (team,)})
            drawn = rng.choice(these.size, min(1000, these.size), replace=False)
            legal = drawn[these.legal_codes(drawn)]
            found += map(these.config, legal[: each - len(found)].tolist())
    return [config for found in kinds.values() for config in found]


def case_id(case: object) -> str:
    """A readable test name."""
    if isinstance(case, tuple):
        name, workload = case
        parts = [name, str(workload), workload.in_dtype, workload.epilogue.out_dtype]
        return "-".join([*parts, str(workload.epilogue.residual_dtype)])
    return str(case)
