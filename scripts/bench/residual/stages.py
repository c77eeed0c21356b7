"""Where the time of a residual-compensated product goes: figure 7 of the paper."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from autoq.measure.bench import POISON, CpuBench
from autoq.measure.job import Timing
from autoq.measure.stopwatch import in_turn
from autoq.runtime.kernel import CpuKernel
from autoq.templates.operators.residual_gemm import ResidualGemm
from autoq.templates.program import Stage
from residual.distributions import masked_pair, masked_threshold
from residual.drawn_on_gpu import masked_pair_on_gpu
from residual.kernels import Compiled, Compiler
from residual.numpy_peer import threads
from residual.rows import Case
from residual.speed import FORMS, circumstances, place

KINDS = ("quantise", "product", "reduce", "correct")
"""What stages do, by a part of their functions' names on the CPU."""

_PRODUCTS = ("sums", "by_a", "by_b")
"""What products write on CUDA, where functions have no names."""

_FORESEE = ("b_squares", "b_weights", "a_foreseen", "a_weights", "row_cuts", "steps_of_a",
            "foreseen")  # fmt: skip
"""What finds on CUDA what matters, also before the product."""

CPU_SIZES, GPU_SIZES = (512, 1024, 2048, 4096), (1024, 2048, 4096, 8192)
DENSITIES = {"cpu": 0.05, "cuda": 0.001}
_ROUNDS = 7


def kinds_of(stages: Sequence[Stage]) -> list[str]:
    """What each stage does, by its function's name or by what it writes.

    On CUDA what comes before the first product quantises, unless it foresees what matters, and what
    lies behind it and writes neither sums nor y reduces. A product that adds lists to its tiles
    counts as one.
    """
    found: list[str] = []
    for stage in stages:
        name, written = str(stage.function.attrs["global_symbol"]), stage.writes[0]
        named = next((kind for kind in KINDS if kind in name), None)
        if named:
            found.append(named)
        elif written == "y":
            found.append("correct" if "sums" in stage.reads else "product")
        elif written in _PRODUCTS:
            found.append("product")
        elif written in _FORESEE:
            found.append("reduce")
        else:
            found.append("reduce" if "product" in found else "quantise")
    return found


def stages_row(compiler: Compiler, form: str, size: int) -> dict[str, Any]:
    """Microseconds of every stage and their shares by kind.

    On the CPU a stage's time is the least of some rounds. On a GPU, where stages overlap as in a
    model, it is the time of the launches up to it less that of those before it.
    """
    target = compiler.host.target.kind
    density = DENSITIES[target]
    compiled = compiler(ResidualGemm(size, size, size, 8, FORMS[form]))
    a, b = (masked_pair if target == "cpu" else masked_pair_on_gpu)(size, density)
    constants = compiled.constants(masked_threshold(density))
    seconds = _cpu_seconds if isinstance(compiled.kernel, CpuKernel) else _cuda_seconds
    taken = [1e6 * one for one in seconds(compiled, (a, b), constants)]
    found = dict.fromkeys(KINDS, 0.0)
    for kind, us in zip(kinds_of(compiled.stages), taken, strict=True):
        found[kind] += us
    return {
        **circumstances(target), "target": target, "form": form, "size": size, "density": density,
        "stages": [[s.writes[0], us] for s, us in zip(compiled.stages, taken, strict=True)],
        "us": found, "share": {kind: us / sum(taken) for kind, us in found.items()},
    }  # fmt: skip


def _cpu_seconds(
    compiled: Compiled, inputs: Sequence[np.ndarray], constants: Sequence[np.ndarray]
) -> list[float]:
    from autoq.runtime.cpu.kernel import LoadedCpuKernel, new_workspaces

    arrays = CpuBench((*inputs, *constants, _output(inputs)), ()).inputs
    spaces = new_workspaces(compiled.kernel)
    stages = LoadedCpuKernel(compiled.kernel).stages([*arrays, *spaces])
    rounds = [[_clocked(stage) for stage in stages] for _ in range(_ROUNDS)]
    return [min(times) for times in zip(*rounds, strict=True)]


def _output(inputs: Sequence[np.ndarray]) -> np.ndarray:
    return np.empty((len(inputs[0]), inputs[1].shape[1]), np.float32)


def _clocked(work: Callable[[], None]) -> float:
    clock = time.process_time if threads() == 1 else time.perf_counter
    start = clock()
    work()
    return clock() - start


def _cuda_seconds(
    compiled: Compiled, inputs: Sequence[np.ndarray], constants: Sequence[np.ndarray]
) -> list[float]:
    from autoq.measure.cuda_bench import CudaBench
    from autoq.runtime.cuda.driver import Device

    bench, kernel = CudaBench(Device(0), inputs, (_output(inputs),)), compiled.kernel
    whole = bench.load(kernel, constants)
    whole.run_over(POISON[0])
    prefixes = [
        bench.load(dataclasses.replace(kernel, launches=kernel.launches[:count]), constants)
        for count in range(1, len(kernel.launches) + 1)
    ]
    timing = Timing(repeat=_ROUNDS, min_seconds=5e-3, overlapped=True)
    watches = [prefix.stopwatch(timing) for prefix in prefixes]
    until = [float(np.median(times)) for times in in_turn(watches, timing)]
    return [after - before for before, after in itertools.pairwise([0.0, *until])]


def cases(compiler: Compiler, sizes: Sequence[int]) -> list[Case]:
    """A row for each form and size."""
    target = compiler.host.target.kind
    own = CPU_SIZES if target == "cpu" else GPU_SIZES
    return [
        Case(
            "stages",
            f"{place(target)} {form} {size}",
            partial(stages_row, compiler, form, size),
            (ResidualGemm(size, size, size, correction=FORMS[form]),),
        )
        for form in FORMS
        for size in sizes or own
    ]
