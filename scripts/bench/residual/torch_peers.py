"""cuBLAS in float32 and TF32, and cuBLASLt's direct int8 product with torch's quantisation.

All through torch on the current GPU, each captured in a CUDA graph of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from autoq.measure.stopwatch import Stopwatch
from residual.kernels import Block

_LAUNCHES, _LONG_SECONDS = 4, 0.02
"""Launches in a graph; one where it takes so long alone."""

_ALLOWED = {"float32": 1e-4, "tf32": 5e-3}
_ALLOWED_INT8 = 2e-2
"""Largest errors against double precision, in units of the largest element."""

_LARGEST = 127.0


class TorchPeers:
    """float32 and TF32 products, and direct int8 ones with scales of rows and columns.

    `cublaslt_compiled` quantises by what torch.compile fuses, the others by torch's own kernels.
    b is multiplied as it lies (`cublaslt`) or as its transpose in memory (the other two).
    """

    def __init__(self) -> None:
        import torch

        self._torch = torch

        def quantised(x: Any, dim: int) -> tuple[Any, Any]:
            scale = x.abs().amax(dim, keepdim=True) / _LARGEST
            return torch.round(x / scale).to(torch.int8), scale

        def direct(a: Any, b: Any) -> Any:
            (x, rows), (weight, columns) = quantised(a, 1), quantised(b, 0)
            return torch._int_mm(x, weight).float() * columns * rows

        def direct_transposed(a: Any, b: Any) -> Any:
            (x, rows), (weight, columns) = quantised(a, 1), quantised(b, 0)
            return torch._int_mm(x, weight.t().contiguous().t()).float() * columns * rows

        self._works = {
            "float32": torch.matmul,
            "tf32": torch.matmul,
            "cublaslt": direct,
            "cublaslt_transposed": direct_transposed,
            "cublaslt_compiled": torch.compile(direct_transposed, dynamic=False),
        }

    def watches(self, a: np.ndarray, b: np.ndarray, block: Block) -> dict[str, Stopwatch]:
        """Each peer's watch by its name. SystemExit where one is wrong."""
        torch = self._torch
        left, right = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()
        exact = block.a.astype(np.float64) @ block.b
        rows, columns = (torch.from_numpy(one).cuda() for one in (block.rows, block.columns))
        found = {}
        for name, work in self._works.items():
            torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
            watch, y = _captured(torch, partial(work, left, right))
            some = y[rows][:, columns].cpu().numpy()
            block.compare(name, some, exact, _ALLOWED.get(name, _ALLOWED_INT8))
            found[name] = watch
        return found


def _captured(torch: Any, work: Callable[[], Any]) -> tuple[Stopwatch, Any]:
    """A watch of `work` replayed in a CUDA graph, and the output of its last run."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.cuda.stream(stream):
        work()
        before.record(stream)
        work()
        after.record(stream)
    torch.cuda.synchronize()
    launches = 1 if before.elapsed_time(after) * 1e-3 > _LONG_SECONDS else _LAUNCHES
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            y = work()
    graph.replay()
    torch.cuda.synchronize()

    def once() -> float:
        before.record()
        graph.replay()
        after.record()
        torch.cuda.synchronize()
        return before.elapsed_time(after) * 1e-3

    return Stopwatch(launches, once, holds=(graph, y)), y
