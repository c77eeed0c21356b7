"""The mma.sync kernels on the emulator: every way to bring and multiply nibbles."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runs import emulated
from with_nvcc import needs_nvcc

from autoq.measure.arrays import random_case, stored_outputs
from autoq.templates.arrays.layout import NHWCNC
from autoq.templates.cuda.mma_sync.config import MmaSyncConfig
from autoq.templates.cuda.mma_sync.conv2d_mma_sync import TEMPLATE
from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.target import parse_target

_IMAGE = {"n": 1, "h": 5, "w": 7, "padding": (1, 1, 0, 1)}
INT4 = Conv2d(**_IMAGE, c=64, k=20, r=2, s=3, in_dtype="int4", weight_dtype="int4",
              epilogue=Epilogue("int4", "uint4"))  # fmt: skip
GROUPS = Conv2d(**_IMAGE, c=48, k=24, r=3, s=2, groups=2, in_dtype="uint4", weight_dtype="int4",
                zero_point_border=True, epilogue=Epilogue("uint4", "int4", True))  # fmt: skip
WEIGHTS = Conv2d(**_IMAGE, c=48, k=17, r=3, s=1, in_dtype="uint8", weight_dtype="int4",
                 zero_point_border=True)  # fmt: skip

BLOCKED = Conv2d(8, 5, 4, 64, 32, 2, 3, padding=(1, 1, 0, 1), in_dtype="uint4", weight_dtype="int4",
                 zero_point_border=True, epilogue=Epilogue("uint4", "int4"),
                 in_layout=NHWCNC, out_layout=NHWCNC)  # fmt: skip
TWO_BLOCKS = Conv2d(8, 3, 4, 64, 64, 1, 1, in_dtype="int4", weight_dtype="int4",
                    epilogue=Epilogue("int4"), in_layout=NHWCNC, out_layout=NHWCNC)  # fmt: skip
BYTES_IN = Conv2d(8, 3, 4, 32, 64, 1, 1, in_dtype="uint8", weight_dtype="int4",
                  epilogue=Epilogue("uint4"), out_layout=NHWCNC)  # fmt: skip
TABLE = Conv2d(2, 5, 6, 32, 40, 3, 3, padding=(1, 1, 0, 1), in_dtype="uint8", weight_dtype="int4",
               zero_point_border=True, epilogue=Epilogue("int8", table=True))  # fmt: skip
TABLE_CONFIGS = [
    MmaSyncConfig(2, 1, 1, 8, 1, False, 2, True, 1, "s8_staged", packing=packing)
    for packing in ("weights", "shared", "shuffle")
]

CASES = [
    (BLOCKED, MmaSyncConfig(2, 1, 1, 4, 1, False, 3, True, 1, "s4"), "sm_80"),
    (
        BLOCKED,
        MmaSyncConfig(1, 2, 2, 2, 2, False, 2, False, 1, "s8_unpacked", packing="shared"),
        "sm_90a",
    ),
    (
        BLOCKED,
        MmaSyncConfig(
            1, 2, 2, 2, 1, False, 3, True, 1, "s8_staged", "register", "weights", 2, True
        ),
        "sm_90a",
    ),
    (
        TWO_BLOCKS,
        MmaSyncConfig(1, 2, 1, 4, 1, False, 2, True, 1, "s8_unpacked", packing="shuffle"),
        "sm_75",
    ),
    (
        BYTES_IN,
        MmaSyncConfig(2, 1, 1, 8, 1, False, 2, True, 1, "s8_staged", packing="shuffle"),
        "sm_80",
    ),
    *((TABLE, config, "sm_80") for config in TABLE_CONFIGS),
    (INT4, MmaSyncConfig(2, 1, 1, 2, 1, False, 3, True, 1, "s4"), "sm_80"),
    (GROUPS, MmaSyncConfig(1, 2, 1, 2, 1, False, 2, True, 1, "s4"), "sm_75"),
    (GROUPS, MmaSyncConfig(1, 2, 2, 2, 2, False, 2, False, 1, "s8_unpacked"), "sm_90a"),
    (INT4, MmaSyncConfig(2, 1, 1, 2, 1, True, 5, True, 1, "s8_staged"), "sm_90a"),
    (GROUPS, MmaSyncConfig(2, 1, 1, 4, 1, False, 2, True, 1, "s8_staged"), "sm_80"),
    (WEIGHTS, MmaSyncConfig(1, 2, 2, 2, 2, False, 3, False, 1, "s8_staged"), "sm_80"),
]


def _name(item: object) -> str:
    return item.compute if isinstance(item, MmaSyncConfig) else str(item)


@needs_nvcc
@pytest.mark.parametrize(("workload", "config", "arch"), CASES, ids=_name)
def test_exact_emulated(workload, config, arch):
    target = parse_target(f"cuda:{arch}")
    values, constants = random_case(workload, 7)
    found = emulated(TEMPLATE, workload, config, target, values, constants)
    (expected,) = stored_outputs(workload, workload.reference(values, constants))
    np.testing.assert_array_equal(found, expected)
