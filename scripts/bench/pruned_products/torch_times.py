"""Times a product of torch's in a process of its own.

They are dense ones, 2:4 by cuSPARSELt, CSR by cuSPARSE, and tiles by the steps of `ablation.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ablation import KINDS as ABLATION

_LAUNCHES, _REPLAYS = 10, 7


def _cusparselt(m: int, n: int, k: int, dtype: str, sparsity: float) -> tuple[Callable, Any, Any]:
    """A 2:4 weight [n, k] times x [m, k] transposed, by the fastest of the library's algorithms."""
    import torch

    kind = getattr(torch, dtype)
    dense = torch.randint(-8, 8, (n, k), device="cuda").to(kind)
    dense *= torch.tensor([1, 0, 0, 1], device="cuda", dtype=kind).repeat(k // 4)
    x = torch.randint(-8, 8, (m, k), device="cuda").to(kind)
    compressed = torch._cslt_compress(dense)
    best = torch._cslt_sparse_mm_search(compressed, x.t())
    wide = {"out_dtype": torch.int32} if dtype == "int8" else {}  # floats have one type alone
    found = torch._cslt_sparse_mm(compressed, x.t(), **wide)
    return (
        lambda: torch._cslt_sparse_mm(compressed, x.t(), alg_id=best),
        found,
        dense @ x.t() if (dtype != "int8") else dense.float() @ x.float().t(),
    )


def _csr(m: int, n: int, k: int, dtype: str, sparsity: float) -> tuple[Callable, Any, Any]:
    """A weight [n, k] of single values times x turned to [k, m], of random places."""
    import torch

    kind = getattr(torch, dtype)
    dense = torch.randint(-8, 8, (n, k), device="cuda").to(kind)
    dense *= (torch.rand((n, k), device="cuda") >= sparsity).to(kind)
    x = torch.randint(-8, 8, (k, m), device="cuda").to(kind)
    compressed = dense.to_sparse_csr()
    return lambda: compressed @ x, compressed @ x, dense @ x


def _dense(m: int, n: int, k: int, dtype: str, sparsity: float) -> tuple[Callable, Any, Any]:
    """x [m, k] times the whole weight [n, k] transposed, float32 without TF32."""
    import torch

    kind = getattr(torch, dtype)
    weight = torch.randint(-8, 8, (n, k), device="cuda").to(kind)
    x = torch.randint(-8, 8, (m, k), device="cuda").to(kind)
    return lambda: x @ weight.t(), x @ weight.t(), x.double() @ weight.double().t()


_KINDS = {"cusparselt": _cusparselt, "cusparse_csr": _csr, "dense": _dense, **ABLATION}


def microseconds(kind: str, *given: Any) -> float:
    """The median over replays of a CUDA graph, behind a comparison with the dense product."""
    import torch

    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    launch, found, expected = _KINDS[kind](*given)
    if not torch.allclose(found.float(), expected.float(), rtol=2e-3, atol=4.0):
        raise RuntimeError("the product is wrong")
    for _ in range(3):
        launch()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(_LAUNCHES):
            launch()
    times = []
    for _ in range(_REPLAYS):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) * 1e3 / _LAUNCHES)
    return sorted(times)[len(times) // 2]


def main() -> None:
    """Print the time of each `kind,m,n,k,dtype,sparsity`, or a dash and what is wrong."""
    for text in sys.argv[1:]:
        kind, m, n, k, dtype, sparsity = text.split(",")
        try:
            us = microseconds(kind, int(m), int(n), int(k), dtype, float(sparsity))
            print(text, us, flush=True)
        except RuntimeError as error:
            print(text, "-", str(error).splitlines()[0], flush=True)


if __name__ == "__main__":
    main()
