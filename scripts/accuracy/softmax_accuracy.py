"""What a quantised softmax, and quantised q, k and v, cost on a task: Magicube's table V.

    python scripts/accuracy/softmax_accuracy.py --prepare --data build/lists.npz
    python scripts/accuracy/softmax_accuracy.py --data build/lists.npz --output accuracy.json

Encoders of four layers, 4 heads of 64 values, learn what expressions over lists of digits come to,
on the GPU, without a download: one dense, one for each sparsity under a mask, and each for several
seeds. Half of the keys that eight queries see are those next to them, the others are random. Each
is then asked about expressions it has not seen, in float16: with torch's attention, and with
autoq's kernel in its place (`autoq.sparse_attention_operator`; a dense one has a mask that keeps
all), in several bits of softmax and of q, k and v. Nothing is trained again for fewer bits.
Accuracies are of this task alone. `--prepare` writes the data and compiles, and needs no GPU.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from checkout import commit
from list_expressions import expressions

import autoq
from autoq.devices import resolve
from autoq.kernel.kernel_store import KernelStore
from autoq.products.masks import mask_vectors
from autoq.templates.operators.sparse_attention import GROUP, SparseAttention
from autoq.templates.registry import matching
from autoq.templates.sparse.structure import Structure
from autoq.templates.target import Target

HEADS, DEPTH, BATCH = 4, 64, 64
BITS = ((16, 8), (8, 8), (8, 4))
"""Bits of the softmax, and of q, k and v."""
DENSE = 0.0


def mask_of(length: int, sparsity: float, seed: int) -> np.ndarray:
    """A mask, bool [length, length]: eight queries see the keys around them and random others."""
    if sparsity == DENSE:
        return np.ones((length, length), bool)
    rng = np.random.default_rng(seed)
    kept = round((1 - sparsity) * length)
    near = kept // 2
    groups = np.zeros((length // 8, length), bool)
    for number, group in enumerate(groups):
        first = min(max(0, number * 8 + 4 - near // 2), length - near)
        group[first : first + near] = True
        group[rng.choice(np.flatnonzero(~group), kept - near, replace=False)] = True
    return np.repeat(groups, 8, axis=0)


def operator_of(mask: np.ndarray, bits: tuple[int, int]) -> Any:
    """autoq's attention under a mask."""
    softmax_bits, qkv_bits = bits
    return autoq.sparse_attention_operator(
        mask, BATCH, HEADS, DEPTH, softmax_bits=softmax_bits, qkv_bits=qkv_bits, target="cuda"
    )


def compile_for(mask: np.ndarray, bits: tuple[int, int], target: Target) -> None:
    """Put the kernel that `operator_of` takes into the cache."""
    vectors = mask_vectors(mask, GROUP)
    structure = Structure.of(vectors.lengths, vectors.pointers, vectors.indices)
    work = SparseAttention(BATCH, HEADS, *mask.shape, DEPTH, structure, "float16", *bits)
    template = matching(work, target)[0]
    KernelStore(None).kernel(template, work, template.default(work, target), target)


def prepare(options: argparse.Namespace) -> None:
    """Write the data, and compile what is not in the cache."""
    counts = (options.train, options.test)
    arrays = [
        expressions(count, options.length, seed, options.processes)
        for seed, count in enumerate(counts)
    ]
    names = ("train", "train_values", "test", "test_values")
    np.savez(options.data, **dict(zip(names, (a for pair in arrays for a in pair), strict=True)))
    for sparsity in options.sparsities:
        for seed in range(options.seeds):
            for bits in BITS:
                mask = mask_of(options.length, sparsity, seed)
                compile_for(mask, bits, resolve(options.target).target)


def accuracies(model: Any, data: dict[str, Any], mask: np.ndarray) -> Iterator[dict[str, Any]]:
    """Rows of a trained encoder: torch's attention, then autoq's in every number of bits."""
    import torch
    from token_encoder import masked

    attentions = {"float16": masked(torch.from_numpy(mask).cuda())}
    for bits in BITS:
        made = operator_of(mask, bits)

        def attend(q: Any, k: Any, v: Any, made: Any = made) -> Any:
            y = made(*(each.contiguous() for each in (q, k, v)))
            return torch.from_dlpack(y).clone()

        attentions[f"{bits[0]}-{bits[1]}"] = attend
    plain = None
    for name, attend in attentions.items():
        logits = logits_of(model, data["test"], attend)
        plain = logits if plain is None else plain
        found = logits.argmax(1)
        yield {
            "attention": name,
            "accuracy": float((found == data["test_values"].long()).double().mean()),
            "same_as_float16": float((found == plain.argmax(1)).double().mean()),
            "logits_off": float((logits - plain).norm() / plain.norm()),
        }


def logits_of(model: Any, tokens: Any, attend: Any) -> Any:
    """Logits of all sequences, float32, the encoder in float16."""
    import torch

    parts = tokens.split(BATCH)
    with torch.inference_mode():
        return torch.cat([model(part.long(), attend).float() for part in parts])


def trained(data: dict[str, Any], mask: np.ndarray, seed: int, options: Any) -> tuple[Any, float]:
    """An encoder in float16, and its last loss."""
    import torch
    from token_encoder import Encoder, Training, train

    torch.manual_seed(seed)
    model = Encoder(options.length, HEADS).cuda()
    given = None if mask.all() else torch.from_numpy(mask).cuda()
    loss = train(model, data["train"], data["train_values"], given, Training(options.steps))
    return model.half(), loss


def run(options: argparse.Namespace) -> None:
    """Train, ask, and write a row for each encoder and attention as they come."""
    import torch

    with np.load(options.data) as arrays:
        data = {name: torch.from_numpy(array).cuda() for name, array in arrays.items()}
    host = resolve("cuda")
    heading = {
        "device": host.device, "driver": host.driver, "date": str(datetime.date.today()),
        "commit": commit(), "length": options.length, "steps": options.steps,
        "train": len(data["train"]), "test": len(data["test"]),
    }  # fmt: skip
    rows: list[dict[str, Any]] = []
    for seed in range(options.seeds):
        for sparsity in options.sparsities:
            start = time.perf_counter()
            mask = mask_of(options.length, sparsity, seed)
            model, loss = trained(data, mask, seed, options)
            taken = time.perf_counter() - start
            for row in accuracies(model, data, mask):
                rows.append({"sparsity": sparsity, "seed": seed, "loss": loss, **row})
                print({key: rows[-1][key] for key in ("sparsity", "seed", "loss", *row)})
            options.output.write_text(json.dumps({**heading, "rows": rows}, indent=1) + "\n")
            total = time.perf_counter() - start
            print(f"trained in {taken:.1f} s, asked in {total - taken:.1f} s", flush=True)
    report(rows)


def report(rows: list[dict[str, Any]]) -> None:
    """Mean accuracies over seeds, a line for each sparsity."""
    table: dict[float, dict[str, list[float]]] = {}
    for row in rows:
        found = table.setdefault(row["sparsity"], {})
        found.setdefault(row["attention"], []).append(row["accuracy"])
    for sparsity, of in table.items():
        cells = [f"{name} {100 * statistics.mean(each):.2f}%" for name, each in of.items()]
        print(f"sparsity {sparsity}: {', '.join(cells)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--prepare", action="store_true", help="write the data, and compile")
    parser.add_argument("--output", type=Path, default=Path("softmax_accuracy.json"))
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--train", type=int, default=96_000, help="expressions to learn from")
    parser.add_argument("--test", type=int, default=8192, help="expressions to ask about")
    parser.add_argument("--steps", type=int, default=3000, help="of training, 64 expressions each")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--sparsities", default="0,0.9,0.95")
    parser.add_argument("--target", default="cuda:sm_90a", help="of --prepare")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args()
    options.sparsities = [float(text) for text in options.sparsities.split(",")]
    if options.length % 8 or options.test % BATCH:
        parser.error(f"--length is a multiple of 8, --test one of {BATCH}")
    prepare(options) if options.prepare else run(options)


if __name__ == "__main__":
    main()
