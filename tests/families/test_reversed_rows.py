"""Every element type of whole bytes goes through tuning, records and calls."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from reversed_rows.operator import ReversedRows
from without_processes import without_processes

import autoq
from autoq.records import read_records
from autoq.runtime.dlpack import to_tensor
from autoq.templates.workload_key import from_dict, key

FAMILY = "reversed_rows"
DTYPES = ("float16", "bfloat16", "float8_e4m3fn", "int16")


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What tuning a workload of every type left."""
    path = tmp_path_factory.mktemp("records") / "reversed.jsonl"
    workloads = [ReversedRows(3, 40, dtype) for dtype in DTYPES]
    with without_processes():
        summary = autoq.tune(
            workloads, trials=2 * len(DTYPES), output=path, target="cpu", registry=FAMILY,
            layouts=("NHWC",),
        )  # fmt: skip
    assert not summary.failures
    return path


@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_of_other_sizes_are_tuned_recorded_and_run(dtype: str, records: Path) -> None:
    workload = ReversedRows(3, 40, dtype)
    assert workload in {record.workload for record in read_records(records).records}
    assert from_dict(json.loads(key(workload))) == workload
    (x,), constants = workload.random_case(np.random.default_rng(1))
    reverse = autoq.operator(
        workload, target="cpu", constants=constants, tuning_records=[records], registry=FAMILY
    )
    assert reverse.source == str(records)
    (expected,) = workload.reference((x,), constants)
    for given in (x, to_tensor(x), np.asfortranarray(x)):
        y = reverse(given)
        assert y.dtype == expected.dtype and str(y.dtype) == dtype
        np.testing.assert_array_equal(y.view(np.uint8), expected.view(np.uint8))


def test_bits_of_another_type_are_refused() -> None:
    workload = ReversedRows(2, 8, "bfloat16")
    constants = workload.random_case(np.random.default_rng(1))[1]
    reverse = autoq.operator(workload, target="cpu", constants=constants, registry=FAMILY)
    with pytest.raises(autoq.errors.InputError, match=r"expected bfloat16 \[2, 8\], found float16"):
        reverse(np.zeros((2, 8), np.float16))
    with pytest.raises(autoq.errors.InputError, match="expected bfloat16"):
        autoq.operator(
            workload,
            target="cpu",
            registry=FAMILY,
            constants={"added": np.zeros(8, ml_dtypes.float8_e4m3fn)},
        )
