"""numpy's float32 product, on as many threads as autoq's kernels run on."""

from __future__ import annotations

import os
import time

import numpy as np

from autoq.measure.stopwatch import Stopwatch
from autoq.runtime.cpu.threads import cores
from residual.kernels import Block

_ALLOWED = 1e-4
"""Of the largest element: float32's sums in any order."""


class NumpyPeer:
    """What OpenBLAS makes of the same product in float32."""

    def watches(self, a: np.ndarray, b: np.ndarray, block: Block) -> dict[str, Stopwatch]:
        """Its watch by its name. SystemExit where it would run on another number of threads."""
        threads = len(os.sched_getaffinity(0))
        if threads != cores() and os.environ.get("OPENBLAS_NUM_THREADS") != str(cores()):
            raise SystemExit(f"OPENBLAS_NUM_THREADS is not {cores()}, the cores autoq runs on")
        y = np.empty((len(a), b.shape[1]), np.float32)
        np.matmul(a, b, out=y)
        exact = block.a.astype(np.float64) @ block.b
        block.check("numpy float32", y, exact, _ALLOWED)

        def once() -> float:
            start = time.perf_counter()
            np.matmul(a, b, out=y)
            return time.perf_counter() - start

        return {"float32": Stopwatch(1, once)}
