"""How long the products of the LeNet take, by their form: the speed-ups of table 7 of the paper."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from autoq.measure.bench import POISON
from autoq.measure.stopwatch import Stopwatch
from autoq.templates.operators.residual_gemm import ResidualGemm
from residual.kernels import ALLOWED, Compiler, bench_of, summed
from residual.lenet import BITS, THRESHOLDS, LeNet, load_digits, trained
from residual.rows import Case
from residual.speed import circumstances, place, seconds_in_turn, timing_of
from residual.variants import Variants

IMAGES = 10_000
"""A batch, as in the paper; digits come several times."""

_FORMS = {"direct": "none", "full": "full"} | {f"sparse_{t:g}": "sparse" for t in THRESHOLDS if t}


def speed_row(compiler: Compiler, network: LeNet, images: np.ndarray, bits: int) -> dict[str, Any]:
    """Times of all three products of a batch together, weights constant.

    Threshold 0 is the full form. Every output element is compared with the reference.
    """
    *factors, _ = network.factors(images, np.matmul)
    pairs = [(np.ascontiguousarray(a), b) for a, b in zip(factors, network.weights, strict=True)]
    timing = timing_of("cpu")
    forms: dict[str, list[Any]] = {form: [] for form in _FORMS}
    for a, b in pairs:
        shape = (len(a), b.shape[1])
        bench = bench_of(compiler.host, (a,), (np.empty(shape, np.float32),))
        exact = Variants(a, b, bits)
        for form, correction in _FORMS.items():
            workload = ResidualGemm(*shape, a.shape[1], bits, correction, constant_b=True)
            threshold = float(form.removeprefix("sparse_")) if correction == "sparse" else 0.0
            compiled = compiler(workload)
            candidate = bench.load(compiled.kernel, compiled.constants(threshold, b=b))
            wanted = {"none": lambda e=exact: e.direct, "full": lambda e=exact: e.full}.get(
                correction, lambda e=exact, t=threshold: e.sparse(t)
            )()
            (y,) = candidate.run_over(POISON[0])
            error = float(np.abs(y - wanted).max() / np.abs(wanted).max())
            if not error <= ALLOWED:
                raise SystemExit(f"{workload}: wrong by {error:.3g} of the largest element")
            forms[form].append((candidate.stopwatch(timing), candidate))
    watches = {form: _together([watch for watch, _ in own]) for form, own in forms.items()}
    watches["float32"] = _numpy(pairs)
    seconds = seconds_in_turn(watches, timing, "cpu")
    operations = sum(2 * a.shape[0] * a.shape[1] * b.shape[1] for a, b in pairs)
    return {
        "bits": bits, "images": len(images), **circumstances("cpu"),
        "times": summed(seconds, operations),
    }  # fmt: skip


def _together(watches: Sequence[Stopwatch]) -> Stopwatch:
    return Stopwatch(1, lambda: sum(watch.seconds() for watch in watches))


def _numpy(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> Stopwatch:
    outputs = [np.empty((len(a), b.shape[1]), np.float32) for a, b in pairs]

    def once() -> float:
        start = time.perf_counter()
        for (a, b), y in zip(pairs, outputs, strict=True):
            np.matmul(a, b, out=y)
        return time.perf_counter() - start

    return Stopwatch(1, once)


def cases(compiler: Compiler) -> list[Case]:
    """A row for each number of bits; the network is trained by the first that is measured."""

    @cache
    def prepared() -> tuple[LeNet, np.ndarray]:
        train, test = load_digits()
        return trained(train), np.resize(test.images, (IMAGES, *test.images.shape[1:]))

    return [
        Case(
            "lenet_speed",
            f"{place(compiler.host.target.kind)} LeNet {bits} bits",
            lambda bits=bits: speed_row(compiler, *prepared(), bits),
        )
        for bits in BITS
    ]
