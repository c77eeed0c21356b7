"""Times cuSPARSELt's 2:4 products through torch, in a process of its own."""

from __future__ import annotations

import sys
from typing import Any


def cusparselt_us(m: int, n: int, k: int, dtype: str) -> float:
    """Microseconds of a 2:4 weight [n, k] times x [m, k] transposed, with outputs of its type.

    The median over replays of a CUDA graph, of the fastest of the library's algorithms, behind a
    comparison with the dense product.
    """
    import torch

    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    dense = torch.randint(-8, 8, (n, k), device="cuda").to(kind)
    dense *= torch.tensor([1, 0, 0, 1], device="cuda", dtype=kind).repeat(k // 4)
    x = torch.randint(-8, 8, (m, k), device="cuda").to(kind)
    compressed = torch._cslt_compress(dense)
    best = torch._cslt_sparse_mm_search(compressed, x.t())
    wide = torch.int32 if dtype == "int8" else kind
    found = torch._cslt_sparse_mm(compressed, x.t(), out_dtype=wide).float()
    if not torch.allclose(found, dense.float() @ x.float().t(), rtol=2e-3, atol=1.0):
        raise RuntimeError("cuSPARSELt's product is wrong")

    def launch() -> Any:
        return torch._cslt_sparse_mm(compressed, x.t(), alg_id=best)

    for _ in range(3):
        launch()
    graph, launches = torch.cuda.CUDAGraph(), 20
    with torch.cuda.graph(graph):
        for _ in range(launches):
            launch()
    times = []
    for _ in range(7):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) * 1e3 / launches)
    return sorted(times)[len(times) // 2]


def main() -> None:
    """Print a line for each of the arguments, `m,n,k,dtype`."""
    for text in sys.argv[1:]:
        m, n, k, dtype = text.split(",")
        try:
            print(text, cusparselt_us(int(m), int(n), int(k), dtype), flush=True)
        except RuntimeError as error:
            print(text, "failed:", str(error).splitlines()[0], flush=True)


if __name__ == "__main__":
    main()
