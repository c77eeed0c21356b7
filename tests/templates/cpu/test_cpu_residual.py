"""Residual products on the CPU against numpy, bit for bit."""

from __future__ import annotations

import itertools
from typing import Any, Literal

import numpy as np
import pytest
from cpu_kernels import HASWELL, Guarded, host

from autoq.kernel.compile import compile_program
from autoq.runtime.cpu.kernel import LoadedCpuKernel
from autoq.templates.arrays.element import numpy_dtype
from autoq.templates.cpu.residual.config import ResidualCpuConfig
from autoq.templates.cpu.residual.residual_gemm_cpu import TEMPLATE
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.target import Target

PLAIN = Target("cpu", "x86-64", units=2)
DRAWS = {
    "uniform": lambda rng, shape: rng.random(shape, np.float32),
    "normal": lambda rng, shape: rng.normal(10, 3, shape),
    "signs": lambda rng, shape: rng.standard_normal(shape),
    "chi-square": lambda rng, shape: rng.chisquare(1, shape),
    "exponential": lambda rng, shape: rng.exponential(4, shape),
    "poisson": lambda rng, shape: rng.poisson(10, shape),
    "zeros": lambda rng, shape: rng.standard_normal(shape) * (rng.random(shape[0]) < 0.5)[:, None],
}


class Compiled:
    """A kernel of one workload and configuration, to run over several draws."""

    def __init__(
        self,
        workload: ResidualGemm,
        config: ResidualCpuConfig | None = None,
        target: Target | None = None,
    ) -> None:
        target = target or host()
        self.workload, self.config = workload, config or TEMPLATE.default(workload, target)
        assert TEMPLATE.matches(workload, target)
        assert TEMPLATE.space(workload, target).rejection(self.config) is None
        arrays = (*workload.inputs, *TEMPLATE.packed(workload, self.config), *workload.outputs)
        program = TEMPLATE.program(workload, self.config, target)
        self.spaces = program.workspaces
        self.kernel = LoadedCpuKernel(compile_program(program, arrays, target))

    def assert_right(self, draw: str, **lists: float) -> None:
        """Compares every element with the reference; fails when bytes beside arrays change."""
        workload, rng = self.workload, np.random.default_rng(0)
        constants: dict[str, Any] = {
            name: np.array([value], np.float32) for name, value in lists.items()
        }
        if workload.bias:
            constants["bias"] = rng.standard_normal(workload.n, np.float32)
        a, b = (DRAWS[draw](rng, s.shape).astype(np.float32) for s in (workload.a, workload.b))
        if workload.constant_b:
            constants["b"] = b
        given = (a,) if workload.constant_b else (a, b)
        y = np.full((workload.m, workload.n), np.nan, np.float32)
        spaces = [np.full(s.spec.shape, 77, numpy_dtype(s.spec.dtype)) for s in self.spaces]
        packed = TEMPLATE.constants(workload, self.config, constants)
        guarded = [Guarded(array) for array in (*given, *packed, y, *spaces)]
        self.kernel.bind([buffer.array for buffer in guarded])()
        assert all(buffer.intact for buffer in guarded)
        (expected,) = workload.reference(given, constants)
        found = guarded[len(given) + len(packed)].array
        np.testing.assert_array_equal(found, expected, err_msg=f"{workload} {draw} {lists}")


@pytest.mark.parametrize(
    "workload",
    [
        ResidualGemm(1, 1, 1, 8, "none"),
        ResidualGemm(5, 3, 7, 8, "full", "nk"),
        ResidualGemm(33, 65, 130, 4, "full", bias=True),
        ResidualGemm(64, 80, 64, 8, "none", "nk", constant_b=True, bias=True),
    ],
    ids=str,
)
def test_dense_forms_give_numpys_bits(workload: ResidualGemm) -> None:
    compiled = Compiled(workload)
    for draw in DRAWS:
        compiled.assert_right(draw)


BLOCKS = ResidualCpuConfig(4, 32, 3, 2, 64)
"""Blocks of two tiles, and of 64 words along k; enough products for two threads."""


@pytest.mark.parametrize(
    ("workload", "config"),
    [
        (ResidualGemm(1, 1, 1, 8, "sparse"), None),
        (ResidualGemm(21, 35, 130, 4, "sparse", "nk", bias=True), None),
        (ResidualGemm(130, 110, 300, 8, "sparse", constant_b=True), BLOCKS),
    ],
    ids=str,
)
def test_what_is_kept_is_compensated_by_lists_or_as_a_whole(
    workload: ResidualGemm, config: ResidualCpuConfig | None
) -> None:
    compiled = Compiled(workload, config)
    lists = [(0, 1), (0.5, 1), (0.9, 0.1), (0.5, 0.2), (1, 0), (np.inf, 0)]
    for (threshold, crossover), draw in zip(lists, itertools.cycle(("normal", "chi-square"))):
        compiled.assert_right(draw, threshold=threshold, crossover=crossover)
    for draw in DRAWS:
        compiled.assert_right(draw, threshold=0.6, crossover=1)


@pytest.mark.parametrize(
    ("target", "correction"), [(HASWELL, "sparse"), (PLAIN, "full")], ids=["haswell", "plain"]
)
def test_bytes_are_multiplied_without_vnni_too(
    target: Target, correction: Literal["sparse", "full"]
) -> None:
    compiled = Compiled(ResidualGemm(9, 37, 70, 8, correction), target=target)
    lists = {"threshold": 0.5, "crossover": 0.2} if correction == "sparse" else {}
    compiled.assert_right("chi-square", **lists)
