"""Workloads: stable keys, JSON there and back, malformed ones refused."""

from __future__ import annotations

import json

import pytest

from autoq.templates.epilogue import Epilogue
from autoq.templates.operators.add import Add
from autoq.templates.operators.concat import Concat
from autoq.templates.operators.conv2d import Conv2d
from autoq.templates.operators.dequantize import Dequantize
from autoq.templates.operators.gemm import Gemm
from autoq.templates.operators.lookup import Lookup
from autoq.templates.operators.pool2d import Pool2d
from autoq.templates.operators.quantize import Quantize
from autoq.templates.operators.relayout import Relayout
from autoq.templates.operators.spmm import Spmm
from autoq.templates.sparse.structure import Structure
from autoq.templates.workload_key import from_dict, key, to_dict

WORKLOADS = [
    Conv2d(8, 56, 56, 64, 64, 3, 3, padding=(1, 1, 1, 1), epilogue=Epilogue("uint8", "int8", True)),
    Conv2d(8, 56, 56, 64, 64, 3, 3, in_layout="NHWCnc", out_layout="NHWCnc"),
    Conv2d(8, 56, 56, 64, 64, 3, 3, out_layout="NHWCnc"),
    Gemm(8, 1000, 2048, in_dtype="uint8"),
    Pool2d("max", 1, 112, 112, 64, 3, 3, (2, 2), (1, 1, 1, 1)),
    Add((2, 3, 4)),
    Concat(10, (16, 48), ("int8", "uint8"), (True, False)),
    Quantize(1, 224, 224, 3, 16, 2),
    Dequantize(1, 7, 7, 512),
    Lookup((1, 7, 7, 512), "uint8", "float32"),
    Conv2d(1, 7, 7, 16, 16, 1, 1, epilogue=Epilogue("uint8", table=True)),
    Relayout(8, 7, 7, 64, "NHWC", "NHWCnc"),
    Spmm(40, 48, 150, 8, Structure(96, 20, 40, "digest")),
]


@pytest.mark.parametrize("workload", WORKLOADS, ids=str)
def test_round_trip_through_json(workload) -> None:
    assert from_dict(json.loads(key(workload))) == workload


def test_keys_are_stable() -> None:
    """A key in a record file must be found again by every later version."""
    assert key(Gemm(1, 2, 3)) == (
        '{"epilogue":{"out_dtype":"int8","requantize_before_add":false,"residual_dtype":null},'
        '"in_dtype":"int8","k":3,"m":1,"n":2,"operator":"gemm","weight_dtype":"int8"}'
    )
    assert key(Conv2d(1, 8, 8, 4, 4, 3, 3)) == (
        '{"c":4,"dilation":[1,1],"epilogue":{"out_dtype":"int8","requantize_before_add":false,'
        '"residual_dtype":null},"groups":1,"h":8,"in_dtype":"int8","k":4,"n":1,'
        '"operator":"conv2d","padding":[0,0,0,0],"r":3,"s":3,"stride":[1,1],"w":8,'
        '"weight_dtype":"int8","zero_point_border":false}'
    )


@pytest.mark.parametrize(
    "change",
    [
        {"operator": "conv3d"},
        {"padding": []},
        {"stride": [0, 2]},
        {"n": ""},
        {"n": True},
        {"n": -1},
        {"groups": 5},
        {"epilogue": None},
        {"epilogue": {"out_dtype": "int3"}},
        {"in_dtype": 8},
        {"in_layout": "NCHW"},
        {"n": 4, "in_layout": "NHWCnc"},
        {"colour": "red"},
    ],
    ids=str,
)
def test_malformed_workloads_are_refused(change: dict) -> None:
    with pytest.raises(ValueError, match=r"workload|operator"):
        from_dict({**to_dict(WORKLOADS[0]), **change})


def test_missing_fields_are_refused() -> None:
    with pytest.raises(ValueError, match="not a workload"):
        from_dict({"operator": "gemm", "m": 3})


def test_sizes_of_a_strided_convolution() -> None:
    conv = Conv2d(2, 224, 224, 3, 64, 7, 7, (2, 2), (3, 3, 3, 3))
    assert conv.y_shape == (2, 112, 112, 64)
    assert conv.operations == 2 * 2 * 112 * 112 * 64 * 147
    assert conv.bytes == 2 * 224 * 224 * 3 + 64 * 147 + 2 * 112 * 112 * 64
