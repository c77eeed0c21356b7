"""Expected outputs are computed once and then read."""

import numpy as np
import pytest

from autoq.measure.arrays import random_case
from autoq.measure.stored_reference import stored_reference
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm

WORKLOAD = Gemm(4, 6, 8)


def _stored(folder, seed):
    activations, constants = random_case(WORKLOAD, seed)
    return stored_reference(folder, seed, 1, WORKLOAD, activations, constants)


def test_second_call_reads_what_the_first_computed(tmp_path, monkeypatch):
    (expected,) = WORKLOAD.reference(*random_case(WORKLOAD, 3))
    assert np.array_equal(_stored(tmp_path, 3)[0], expected)

    def never(*_):
        raise AssertionError("computed again")

    monkeypatch.setattr(type(WORKLOAD), "reference_in_threads", never)
    assert np.array_equal(_stored(tmp_path, 3)[0], expected)
    with pytest.raises(AssertionError, match="computed again"):
        _stored(tmp_path, 4)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_what_is_read_has_the_type_that_was_computed(tmp_path, dtype):
    product = FloatGemm(4, 8, 16, dtype, "int8", dtype)
    first, second = (
        stored_reference(tmp_path, 3, 1, product, *random_case(product, 3))[0] for _ in range(2)
    )
    assert second.dtype == first.dtype and second.dtype.name == dtype
    assert np.array_equal(second.view(np.uint16), first.view(np.uint16))
