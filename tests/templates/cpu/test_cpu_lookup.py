"""Tables on the CPU against the numpy reference: every byte, by vpermi2b and by scalar loads."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from cpu_kernels import check, host, random_array

from autoq.templates.cpu.movement import lookup
from autoq.templates.cpu.movement.template import MovementConfig
from autoq.templates.operators.lookup import Lookup

RNG = np.random.default_rng(0)


SHAPES = ((3,), (4, 64), (2, 19, 71))


@pytest.mark.parametrize("permutes", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_lookup(shape: tuple[int, ...], permutes: bool) -> None:
    """Each shape has another third of the pairs of dtypes."""
    if permutes and not host().avx512vbmi:
        pytest.skip("this CPU has no vpermi2b")
    target = replace(host(), avx512vbmi=permutes)
    pairs = list(product(("int8", "uint8"), ("int8", "uint8", "float32")))
    for in_dtype, out_dtype in pairs[SHAPES.index(shape) :: 3]:
        x = random_array(RNG, shape, in_dtype)
        x.reshape(-1)[:256] = np.arange(min(x.size, 256)).astype(in_dtype)
        constants = {"table": random_array(RNG, (256,), out_dtype)}
        workload = Lookup(shape, in_dtype, out_dtype)
        check(lookup.TEMPLATE, workload, [x], constants, MovementConfig(3), target)
