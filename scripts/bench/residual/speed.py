"""Speeds over forced densities, tables 3 and 4 of the paper, and over real data for its table 5.

All speeds run from float32 inputs to a float32 output. Operations are counted as 2 m n k.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from autoq.measure.bench import POISON
from autoq.measure.job import Timing
from autoq.measure.stopwatch import Stopwatch, in_turn
from autoq.products.residual_crossover import measured_crossover
from autoq.templates.operators.residual_gemm import ResidualGemm
from residual.accuracy import BITS, PAPER_THRESHOLDS
from residual.distributions import DISTRIBUTIONS, masked_pair, masked_threshold, pair
from residual.drawn_on_gpu import masked_pair_on_gpu
from residual.kernels import ALLOWED, Block, Compiler, Ready, bench_of, loaded, summed
from residual.numpy_peer import NumpyPeer, threads
from residual.rows import Case
from residual.variants import Variants

FORMS = {"direct": "none", "full": "full", "sparse": "sparse"}
"""What the corrections of `ResidualGemm` are called."""

CPU_SIZES, CPU_DENSITIES = (512, 1024, 4096, 8192), (0.30, 0.20, 0.10, 0.05, 0.01)
GPU_SIZES = (1024, 2048, 4096, 8192, 16384)
GPU_DENSITIES = (0.001, 0.0005, 0.00025, 0.0001, 0.00005)
REAL_SIZE = 4096
"""The size of the products of real distributions, as in the paper."""

CROSSOVER_SIZES = (512, 1024, 2048)

_REST_SECONDS = 0.02

_MATTERS = 0.75
"""Between the magnitudes of a masked matrix that matter and those that do not."""

Peers = Callable[[np.ndarray, np.ndarray, Block], dict[str, Stopwatch]]


def timing_of(kind: str) -> Timing:
    """How long each form is timed: the CPU is shared with other work, a GPU is not."""
    if kind == "cpu":
        return Timing(repeat=60, number=1, budget_seconds=3.0)
    return Timing(repeat=20, min_seconds=2e-3, budget_seconds=0.1)


def seconds_in_turn(
    watches: Mapping[str, Stopwatch], timing: Timing, kind: str
) -> dict[str, list[float]]:
    """Seconds of each form by its name, all timed in turn; on the CPU see `rested`."""
    order = [rested(watch) if kind == "cpu" else watch for watch in watches.values()]
    return dict(zip(watches, in_turn(order, timing), strict=True))


def rested(watch: Stopwatch) -> Stopwatch:
    """The watch behind a rest and an untimed run: idle threads of others spin for a while.

    A single thread is alone, and its time is CPU time, to which other work adds least.
    """
    alone = threads() == 1
    clock = time.process_time if alone else time.perf_counter

    def once() -> float:
        if not alone:
            time.sleep(_REST_SECONDS)
            watch.once()
        start = clock()
        watch.once()
        return clock() - start

    return dataclasses.replace(watch, once=once)


def peers_of(kind: str) -> Peers:
    """What is timed in turn with autoq's kernels: each name's watch, checked at the block."""
    if kind == "cpu":
        return NumpyPeer().watches
    from residual.torch_peers import TorchPeers

    return TorchPeers().watches


def masked_row(
    compiler: Compiler, peers: Peers, size: int, density: float, bits: int
) -> dict[str, Any]:
    """The times of every form of one product whose factors have a forced density.

    On a GPU also with launches that overlap, as in a compiled model, and with the peers only at the
    first density, on which they do not depend.
    """
    kind = compiler.host.target.kind
    a, b = (masked_pair if kind == "cpu" else masked_pair_on_gpu)(size, density)
    block, threshold = Block.drawn(a, b, _MATTERS), masked_threshold(density)
    timing = timing_of(kind)
    bench = bench_of(compiler.host, (a, b), (np.empty((size, size), np.float32),))
    ready, sources = {}, {}
    for form, correction in FORMS.items():
        compiled = compiler(ResidualGemm(size, size, size, bits, correction))
        constants = compiled.constants(threshold)
        ready[form] = loaded(bench, compiled, constants, block, timing)
        if kind == "cuda":
            together = dataclasses.replace(timing, overlapped=True)
            candidate = ready[form].loaded
            ready[f"{form}_overlapped"] = Ready(candidate.stopwatch(together), candidate)
        sources[form] = compiled.chosen.source
    watches = {form: item.watch for form, item in ready.items()}
    if kind == "cpu" or density == GPU_DENSITIES[0]:
        watches |= peers(a, b, block)
    seconds = seconds_in_turn(watches, timing, kind)
    return {
        "target": kind, "size": size, "bits": bits, "density": density, "threshold": threshold,
        "density_a": _share(a), "density_b": _share(b), **circumstances(kind),
        "sources": sources, "times": summed(seconds, 2 * size**3),
    }  # fmt: skip


def real_row(compiler: Compiler, name: str, size: int, bits: int) -> dict[str, Any]:
    """The times of the sparse form at the paper's thresholds on a distribution's matrices.

    Both sides take part sparsely whatever their density, so that the row shows where it pays. Every
    output element is compared with the reference.
    """
    kind = compiler.host.target.kind
    a, b = pair(name, size)
    forms, timing = Variants(a, b, bits), timing_of(kind)
    bench = bench_of(compiler.host, (a, b), (np.empty((size, size), np.float32),))
    expected = {"direct": forms.direct, "full": forms.full}
    thresholds, densities = {"direct": 0.0, "full": 0.0}, {}
    for threshold in PAPER_THRESHOLDS:
        form = f"sparse_{threshold}"
        thresholds[form], expected[form] = threshold, forms.sparse(threshold)
        densities[form] = [np.count_nonzero(side) / side.size for side in forms.chosen(threshold)]
    ready = {}
    for form, wanted in expected.items():
        correction = FORMS[form.split("_")[0]]
        compiled = compiler(ResidualGemm(size, size, size, bits, correction))
        candidate = bench.load(compiled.kernel, compiled.constants(thresholds[form]))
        (y,) = candidate.run_over(POISON[0])
        error = float(np.abs(y - wanted).max() / np.abs(wanted).max())
        if not error <= ALLOWED:
            raise SystemExit(f"{name}, {form}: wrong by {error:.3g} of the largest element")
        ready[form] = candidate.stopwatch(timing), candidate
    seconds = seconds_in_turn({form: watch for form, (watch, _) in ready.items()}, timing, kind)
    return {
        "target": kind, "distribution": name, "size": size, "bits": bits, "densities": densities,
        **circumstances(kind), "times": summed(seconds, 2 * size**3),
    }  # fmt: skip


def _share(matrix: np.ndarray) -> float:
    """The density that a mask reached."""
    large = np.count_nonzero(matrix > _MATTERS) + np.count_nonzero(matrix < -_MATTERS)
    return large / matrix.size


def forms_of(size: int, bits: int) -> tuple[ResidualGemm, ...]:
    """The workloads of a product of square matrices."""
    return tuple(ResidualGemm(size, size, size, bits, form) for form in FORMS.values())


def circumstances(kind: str) -> Mapping[str, Any]:
    """What besides the device decides times on a CPU: threads, and others' work."""
    if kind != "cpu":
        return {}
    return {"threads": threads(), "load": round(os.getloadavg()[0], 1)}


def place(kind: str) -> str:
    """The kind of target and the threads, as names of cases have them."""
    return kind if kind != "cpu" else f"cpu, {threads()} threads,"


def masked_cases(compiler: Compiler, sizes: Sequence[int]) -> list[Case]:
    """A row for each size and density of the target's table."""
    kind = compiler.host.target.kind
    peers = peers_of(kind)
    own, densities = (CPU_SIZES, CPU_DENSITIES) if kind == "cpu" else (GPU_SIZES, GPU_DENSITIES)
    return [
        Case(
            "speed",
            f"{place(kind)} {size} density {density:g}",
            partial(masked_row, compiler, peers, size, density, 8),
            forms_of(size, 8),
        )
        for size in sizes or own
        for density in densities
    ]


def crossover_cases(compiler: Compiler, sizes: Sequence[int]) -> list[Case]:
    """A row for each size: the density from which on a whole side is faster than a sparse one."""
    host = compiler.host

    def crossover_row(size: int) -> dict[str, Any]:
        workload = ResidualGemm(size, size, size)
        found = measured_crossover(workload, host, cache_dir=compiler.folder)
        return {
            "target": host.target.kind, "size": size, "crossover": found,
            **circumstances(host.target.kind),
        }  # fmt: skip

    return [
        Case("crossover", f"{place(host.target.kind)} {size}", partial(crossover_row, size))
        for size in sizes or CROSSOVER_SIZES
    ]


def real_cases(compiler: Compiler, sizes: Sequence[int]) -> list[Case]:
    """A row for each distribution and number of bits."""
    kind = compiler.host.target.kind
    return [
        Case(
            "real_speed",
            f"{place(kind)} {name} {bits} bits {size}",
            partial(real_row, compiler, name, size, bits),
            forms_of(size, bits),
        )
        for size in sizes or (REAL_SIZE,)
        for bits in BITS
        for name in DISTRIBUTIONS
    ]
