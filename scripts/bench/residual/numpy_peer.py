"""numpy's float32 product, on as many threads as autoq's kernels run on."""

from __future__ import annotations

import os
import time

import numpy as np

from autoq.measure.stopwatch import Stopwatch
from autoq.runtime.cpu.threads import cores
from residual.kernels import Block

_ALLOWED = 1e-4
"""The error allowed, as a share of the largest element: float32's sums in any order."""


def threads() -> int:
    """How many threads autoq's kernels run on: TVM_NUM_THREADS, or one for each core.

    SystemExit where OpenBLAS would run on another number.
    """
    here = int(os.environ.get("TVM_NUM_THREADS", cores()))
    there = int(os.environ.get("OPENBLAS_NUM_THREADS", len(os.sched_getaffinity(0))))
    if here != there:
        raise SystemExit(
            f"autoq would run on {here} threads and numpy on {there}; set TVM_NUM_THREADS and "
            "OPENBLAS_NUM_THREADS to the same number"
        )
    return here


class NumpyPeer:
    """What OpenBLAS makes of the same product in float32."""

    def watches(self, a: np.ndarray, b: np.ndarray, block: Block) -> dict[str, Stopwatch]:
        """Its watch by its name."""
        y = np.empty((len(a), b.shape[1]), np.float32)
        np.matmul(a, b, out=y)
        exact = block.a.astype(np.float64) @ block.b
        block.check("numpy float32", y, exact, _ALLOWED)

        def once() -> float:
            start = time.perf_counter()
            np.matmul(a, b, out=y)
            return time.perf_counter() - start

        return {"float32": Stopwatch(1, once)}
