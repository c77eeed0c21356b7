"""Times Transformer encoders whose attention is under a sparse mask, beside dense ones of torch.

    python scripts/bench/bench_sparse_transformer.py --compile-only   # kernels alone, no GPU's time
    python scripts/bench/bench_sparse_transformer.py --output sparse_transformer_h200.json

The networks are those of Magicube's figure 17: four encoder layers, heads of 64 values. autoq's is
the ONNX of `autoq.models.sparse_transformer` under `--precision attention8-8` and the like, torch's
has the same weights in float16, no mask, and the fastest of its dense attentions. Before a time
counts, autoq's whole output is compared with torch's under the mask, in float32. Both replay a CUDA
graph in turn. Rows join those of the output; a case that it has is left out.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from autoq import Session, compile
from autoq.devices import Host, require_device, resolve
from autoq.models.sparse_transformer import sparse_transformer, vector_mask

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench_transformers import device_seconds
from checkout import commit

ALLOWED_ERROR = {"attention16-8": 0.03, "attention8-8": 0.03, "attention8-4": 0.2}
"""Root mean square of the error over that of the output. 4 bits of q, k and v lose most."""
TURNS, REPLAYS, WARM_UP, LAYERS, DEPTH = 6, 15, 3, 4, 64


@dataclass(frozen=True)
class Case:
    """An encoder with so many tokens, heads and sequences, under a mask of a sparsity."""

    length: int
    heads: int
    batch: int
    sparsity: float
    precision: str

    def __str__(self) -> str:
        return (
            f"sparse transformer length {self.length} heads {self.heads} batch {self.batch} "
            f"{self.sparsity} {self.precision.removeprefix('attention')}"
        )

    @property
    def mask(self) -> np.ndarray:
        return vector_mask(self.length, self.sparsity)

    def model(self) -> onnx.ModelProto:
        """The encoder as ONNX."""
        return sparse_transformer(self.mask, self.heads, LAYERS, self.batch)

    def feed(self) -> np.ndarray:
        """An input, float16 [batch, length, heads * 64]."""
        shape = (self.batch, self.length, self.heads * DEPTH)
        return np.random.default_rng(1).standard_normal(shape, np.float32).astype(np.float16)


def cases(precisions: list[str]) -> list[Case]:
    """The paper's grid, in every precision."""
    grid = itertools.product((8192, 4096), (8, 4), (2, 8), (0.9, 0.95), precisions)
    return [Case(*each) for each in grid]


def compiled(case: Case, host: Host, records: list[Path], folder: Path) -> Path:
    """The artifact of a case."""
    name = str(case).replace(" ", "_")
    model, path = folder / f"{name}.onnx", folder / f"{name}.tar"
    onnx.save(case.model(), model)
    compile(
        model, target=host, output=path, precision=case.precision, tuning_records=records,
        cache_dir=folder / "kernels",
    )  # fmt: skip
    return path


class Torch:
    """The encoder in torch, float16 on the GPU, with the weights of the ONNX model."""

    def __init__(self, case: Case) -> None:
        import torch

        self.case = case
        self.weights = {
            tensor.name: torch.from_numpy(numpy_helper.to_array(tensor).copy()).cuda()
            for tensor in case.model().graph.initializer
            if tensor.name != "mask" and tensor.data_type == onnx.TensorProto.FLOAT16
        }

    def __call__(self, x: Any, attend: Callable[[Any, Any, Any], Any]) -> Any:
        """The output; attend maps q, k, v of [batch, heads, length, depth] to the like."""
        from torch.nn import functional

        weights = {name: value.to(x.dtype) for name, value in self.weights.items()}

        def linear(x: Any, name: str) -> Any:
            return functional.linear(x, weights[f"{name}.weight"].T, weights[f"{name}.bias"])

        def norm(x: Any, name: str) -> Any:
            parts = (weights[f"{name}.factor"], weights[f"{name}.offset"])
            return functional.layer_norm(x, x.shape[-1:], *parts)

        for layer in range(LAYERS):
            name = f"layer{layer}"
            heads = [
                linear(x, f"{name}.attention.{kind}")
                .view(*x.shape[:2], self.case.heads, DEPTH)
                .transpose(1, 2)
                for kind in ("query", "key", "value")
            ]
            y = attend(*heads).transpose(1, 2).reshape(x.shape)
            x = norm(x + linear(y, f"{name}.attention.output"), f"{name}.norm1")
            y = linear(functional.relu(linear(x, f"{name}.expand")), f"{name}.shrink")
            x = norm(x + y, f"{name}.norm2")
        return x

    def masked(self, x: Any) -> np.ndarray:
        """What the encoder is under the mask, in float32."""
        import torch

        mask = torch.from_numpy(self.case.mask).cuda()

        def attend(q: Any, k: Any, v: Any) -> Any:
            y = torch.empty_like(q)
            for batch, head in itertools.product(range(q.shape[0]), range(q.shape[1])):
                scores = q[batch, head] @ k[batch, head].T / DEPTH**0.5
                shares = scores.masked_fill(~mask, -torch.inf).softmax(-1)
                y[batch, head] = shares @ v[batch, head]
            return y

        with torch.inference_mode():
            return np.asarray(self(x.float(), attend).cpu())

    def dense(self, x: Any) -> dict[str, Callable[[], Any]]:
        """Replays of the dense encoder, by the name of the attention that it uses."""
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention as attention

        works: dict[str, Callable[[], Any]] = {}
        backends = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
        for name, backend in backends.items():
            with torch.inference_mode(), sdpa_kernel(backend):
                with torch.cuda.stream(torch.cuda.Stream()):
                    for _ in range(WARM_UP):
                        self(x, attention)
                torch.cuda.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    self(x, attention)
            works[f"torch_fp16_{name}"] = graph.replay
        return works


def measured(case: Case, path: Path) -> dict[str, Any]:
    """A row: error, times, and what the kernels of a case take."""
    import torch

    session, peer, feed = Session(path), Torch(case), case.feed()
    x = torch.from_numpy(feed).cuda()
    wanted = peer.masked(x)
    (found,) = session.run(None, {"input": feed})
    error = float(np.sqrt(np.mean((found - wanted) ** 2) / np.mean(wanted**2)))
    if not error <= ALLOWED_ERROR[case.precision]:
        raise SystemExit(f"{case}: the root mean square of the error is {error:.3f} of the output")
    works = peer.dense(x)
    samples: dict[str, list[float]] = {"autoq": [], **{name: [] for name in works}}
    for _ in range(TURNS):
        samples["autoq"].append(session.run_seconds(REPLAYS))
        for name, work in works.items():
            samples[name].append(device_seconds(work))
    times = {name: round(statistics.median(each) * 1e6, 1) for name, each in samples.items()}
    kernels: dict[str, float] = {}
    for item in session.profile():
        kernels[item.call.workload] = kernels.get(item.call.workload, 0.0) + item.seconds * 1e6
    largest = sorted(kernels.items(), key=lambda each: -each[1])[:6]
    return {
        "case": str(case), "autoq_us": times.pop("autoq"), "peers": times,
        "error": round(error, 5), "kernels_us": {name: round(us, 1) for name, us in largest},
        "date": str(datetime.date.today()), "commit": commit(),
    }  # fmt: skip


def missing(known: list[Case], rows: list[dict[str, Any]]) -> Iterator[Case]:
    """Cases that no row is of."""
    held = {row["case"] for row in rows}
    return (case for case in known if str(case) not in held)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--precisions", default="attention8-8,attention16-8,attention8-4")
    parser.add_argument("--only", default="", help="words that a case's name has, parted by commas")
    parser.add_argument("--tuning-records", type=Path, action="append", default=[])
    parser.add_argument("--models", type=Path, default=Path("build/sparse_transformer"))
    parser.add_argument("--compile-only", action="store_true", help="do what needs no GPU")
    options = parser.parse_args()
    options.models.mkdir(parents=True, exist_ok=True)
    words = [word for word in options.only.split(",") if word]
    wanted = [
        case
        for case in cases(options.precisions.split(","))
        if all(word in str(case) for word in words)
    ]
    host = resolve("cuda:sm_90a" if options.compile_only else "cuda")
    if options.compile_only:
        for case in wanted:
            compiled(case, host, options.tuning_records, options.models)
            print(case, flush=True)
        return
    require_device(host)
    if options.output is None:
        raise SystemExit("--output: name the JSON file")
    heading = {"device": host.device, "driver": host.driver}
    held = json.loads(options.output.read_text()) if options.output.exists() else {"cases": []}
    rows = held["cases"]
    for case in missing(wanted, rows):
        row = measured(case, compiled(case, host, options.tuning_records, options.models))
        rows.append(row)
        options.output.write_text(json.dumps({**heading, "cases": rows}, indent=1) + "\n")
        print(f"{case}: autoq {row['autoq_us']:.0f} us, {row['peers']}", flush=True)


if __name__ == "__main__":
    main()
