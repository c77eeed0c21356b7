"""Bytes of products with scales of rows: both forms of a kernel, on the emulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ptx.kernels import wrong
from with_nvcc import needs_nvcc

from autoq.templates.base import Template
from autoq.templates.cuda.sparse import spmm_online, spmm_panel, spmm_split
from autoq.templates.cuda.sparse.wgmma import spmm_joined, spmm_wgmma
from autoq.templates.cuda.sparse.wgmma.config import LongConfig
from autoq.templates.cuda.sparse.wgmma.spmm_joined import JoinedConfig
from autoq.templates.epilogue import Epilogue, pack_scalars
from autoq.templates.epilogue.cuda.short_forms.words import IS_READ, NEITHER
from autoq.templates.operators.spmm import Spmm
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import parse_target
from autoq.templates.workload import Arrays

TARGET = parse_target("cuda:sm_90a")
SHORT = Spmm(93, 128, 150, 8, Structure(320, 28, 80), epilogue=Epilogue("uint8"))
LONG = Spmm(290, 128, 150, 128, Structure(128, 56, 96))
MIDDLE = Spmm(90, 256, 150, 32, Structure(160, 56, 96), "uint8", epilogue=Epilogue("uint8"))
SHORTEST = Spmm(40, 64, 9000, 16, Structure(512, 160, 320))
NIBBLES = Spmm(93, 128, 150, 32, Structure(160, 56, 96), "int4")
KERNELS: list[tuple[Template, Spmm, Any]] = [
    (spmm_wgmma.TEMPLATE, LONG, LongConfig(1, 1, 64, 3)),
    (spmm_wgmma.TEMPLATE, LONG, LongConfig(1, 2, 32, 4, whole_stages=False)),
    (spmm_wgmma.TEMPLATE, MIDDLE, LongConfig(1, 4, 32, 3)),
    (spmm_wgmma.TEMPLATE, MIDDLE, LongConfig(2, 1, 64, 2, streamed=True)),
    (spmm_wgmma.TEMPLATE, SHORTEST, LongConfig(1, 1, 32, 3)),
    (spmm_wgmma.TEMPLATE, NIBBLES, LongConfig(1, 2, 64, 3)),
    (spmm_joined.TEMPLATE, SHORT, JoinedConfig(1, 1, 64, 3, vector=64)),
    *((module.TEMPLATE, SHORT, module.default(SHORT, TARGET))
      for module in (spmm_panel, spmm_split, spmm_online)),
]  # fmt: skip


def case_of(workload: Spmm, kind: str) -> tuple[Arrays, dict[str, Any]]:
    """A random case: as is, one whose bounds are not the type's, one whose bias is too large."""
    values, constants = workload.random_case(np.random.default_rng(5))
    if kind == "narrower":
        constants["scalars"] = pack_scalars(low=-10, high=101, zero_point=17)
    if kind == "far":
        constants["bias"] = np.asarray(constants["bias"]) + (1 << 24)
        constants["scale"] = np.asarray(constants["scale"]) / np.float32(1 << 14)
    return values, constants


@needs_nvcc
@pytest.mark.parametrize("kind", ["read", "narrower", "far"])
@pytest.mark.parametrize(
    ("template", "workload", "config"), KERNELS, ids=lambda value: getattr(value, "name", None)
)
def test_both_forms_are_right(template: Template, workload: Spmm, config: Any, kind: str) -> None:
    case = case_of(workload, kind)
    *_, scalars = template.constants(workload, config, case[1])
    assert scalars[8] == (IS_READ if kind == "read" else NEITHER)
    assert wrong(template, workload, config, TARGET, case=case) is None
