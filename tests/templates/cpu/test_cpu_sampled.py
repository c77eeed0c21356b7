"""Sampled products on the CPU against the numpy reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cpu_kernels import host, run

from autoq.measure.arrays import stored_activations
from autoq.measure.check import complaints
from autoq.templates.cpu.sampled.sddmm_direct import TEMPLATE, SampledCpuConfig
from autoq.templates.operators.sddmm import Sddmm
from autoq.templates.sparse.structure import Structure

CLASS = Structure(224, 28, 80)

CASES = (
    (Sddmm(73, 150, 77, 8, CLASS), SampledCpuConfig(3)),
    (Sddmm(61, 150, 64, 8, CLASS, "uint8", "int8", "float16", 16), None),
    (Sddmm(33, 150, 66, 4, CLASS, "int4", "uint4", "float32", 8), SampledCpuConfig(1)),
    (Sddmm(33, 150, 66, 2, CLASS, "int16", "uint16", "float32"), None),
    (Sddmm(61, 150, 40, 8, CLASS, "float16", "float16", "bfloat16"), None),
    (Sddmm(9, 5, 3, 8, Structure(0, 0, 0), "uint16", "int16", "float16", 32), None),
    (Sddmm(16, 5, 1, 8, Structure(10, 5, 5), "int16", "int16"), None),
)


def check(workload: Sddmm, config: SampledCpuConfig | None = None) -> None:
    """Fail unless the kernel gives the reference's output."""
    values, constants = workload.random_case(np.random.default_rng(3))
    chosen = config or TEMPLATE.default(workload, host())
    assert chosen in TEMPLATE.space(workload, host())
    found = run(TEMPLATE, workload, chosen, [*stored_activations(workload, values)], constants)
    expected = workload.reference(values, constants)
    assert complaints([found], expected, workload, host()) is None


@pytest.mark.parametrize(("workload", "config"), CASES, ids=lambda part: str(part))
def test_outputs_are_right(workload: Sddmm, config: SampledCpuConfig | None) -> None:
    check(workload, config)


def test_rows_that_have_all_columns_are_right() -> None:
    check(replace(CASES[0][0], structure=Structure(10 * 150, 150, 150)))
