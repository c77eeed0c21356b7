"""Trains small networks on generated data, prunes them in every pattern, and trains them again.

Needs torch (pip install torch), no GPU and no download. The accuracies are of tasks that are made
here (`pruned_training/tasks.py`): they compare patterns, and say nothing of other networks.

    python scripts/prune_and_train.py --sparsities 0.5,0.75,0.9 --output accuracies.json
    python scripts/pruned_training/plot.py accuracies.json accuracies.png
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice, repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from autoq.errors import AutoqError, InputError
from autoq.pruning.pattern import Pattern
from autoq.pruning.schedule import Reads, Stage, prune_in_stages
from autoq.pruning.torch_modules import KeptMasks, matrices, prunable, taylor_scores, write

try:
    import torch
    from torch import nn
    from torch.nn.functional import cross_entropy
except ImportError:
    sys.exit("prune_and_train: needs torch: pip install torch")

from pruned_training.tasks import TASKS, Batch, Task

PATTERNS = {
    "ew": Pattern.make("ew"),
    "vw-4": Pattern.make("vw", 4),
    "vw-16": Pattern.make("vw", 16),
    "bw-8": Pattern.make("bw", 8),
    "tw-16": Pattern.make("tw", 16),
    "tew-16": Pattern.make("tew", 16, delta=0.05),
    "tvw-4": Pattern.make("tvw", 16),
    "tvw-16": Pattern.make("tvw", 16, "8:16"),
}
TIED = {
    "tw-16-joint": ("tw-16", True, False, 0.5),
    "tw-16-rows": ("tw-16", False, True, 0.5),
    "tw-16-joint-rows": ("tw-16", True, True, 0.5),
    "tw-16-channels": ("tw-16", True, False, 1.0),
    "tvw-4-joint": ("tvw-4", True, False, 0.5),
    "tvw-4-joint-rows": ("tvw-4", True, True, 0.5),
    "tvw-4-channels": ("tvw-4", True, False, 1.0),
}
"""Patterns by name: as which pattern, whether products that are added and heads prune the same
columns, whether all tiles of what reads the same prune the same rows, and how much of the pruning
columns take that others read."""
UNSEEN = 4000


@dataclass(frozen=True)
class Run:
    """A network pruned in a pattern to a sparsity, from the weights that training left.

    samples: of the data; epochs: of fine-tuning in each stage.
    """

    task: str
    dense: dict[str, torch.Tensor]
    pattern: str
    sparsity: float
    samples: int
    epochs: int
    seed: int


def batches(data: Batch, size: int = 100) -> list[Batch]:
    """The data in parts."""
    return list(zip(data[0].split(size), data[1].split(size), strict=True))


def loss(module: nn.Module, batch: Batch) -> torch.Tensor:
    """Cross entropy of a batch."""
    return cross_entropy(module(batch[0]), batch[1])


def train(
    module: nn.Module, task: Task, data: Batch, epochs: int, rate: float, stage: Stage | None
) -> None:
    """Adam over the data; the masks of a stage are kept."""
    optimizer = torch.optim.Adam(module.parameters(), lr=rate)
    if stage is not None:
        KeptMasks(prunable(module, task.skipped), stage.masks, optimizer)
    for _ in range(epochs):
        for part in torch.randperm(len(data[1])).split(50):
            optimizer.zero_grad()
            loss(module, (data[0][part], data[1][part])).backward()
            optimizer.step()


def accuracy(module: nn.Module, data: Batch) -> float:
    """The share of samples that are classified rightly."""
    with torch.no_grad():
        return float((module(data[0]).argmax(1) == data[1]).double().mean())


def pruned_accuracies(run: Run) -> tuple[float, float] | str:
    """Accuracies of a network pruned at once, and of one that is trained in stages.

    A line instead where the pattern cannot have the sparsity.
    """
    torch.set_num_threads(1)
    torch.manual_seed(run.seed)
    task = TASKS[run.task]
    name, joint, rows, columns = TIED.get(run.pattern, (run.pattern, False, False, 0.5))
    pattern = PATTERNS[name]
    if joint and not task.reads:
        return "nothing is known of its sums"
    if rows and not task.shared_rows:
        return "nothing is known of what reads the same"
    heads, shared = (task.heads if joint else ()), (task.shared_rows if rows else ())
    # Rows of constant channels go first where these leave, and in sums of the residual network.
    reads = Reads({} if task.heads and not joint else task.reads, joint, heads, shared, columns)
    data, unseen = task.data(run.samples, 1), task.data(UNSEEN, 2)
    module = task.network()
    weights = prunable(module, task.skipped)

    def score(values):
        write(weights, values)
        return taylor_scores(module, weights, batches(data)[:10], loss)

    def fine_tune(stage):
        write(weights, stage.weights)
        train(module, task, data, run.epochs, task.rate / 2, stage)
        return matrices(weights)

    try:
        module.load_state_dict(run.dense)
        once = prune_in_stages(
            matrices(weights), pattern, run.sparsity, 1.0, None, score, reads=reads
        )
        write(weights, once.weights)
        at_once = accuracy(module, unseen)
        module.load_state_dict(run.dense)
        last = prune_in_stages(
            matrices(weights), pattern, run.sparsity, 0.25, fine_tune, score, reads=reads
        )
    except AutoqError as error:
        return str(error)
    write(weights, last.weights)
    kept = sum(int(mask.sum()) for mask in last.masks.values())
    total = sum(mask.size for mask in last.masks.values())
    if abs(1 - kept / total - run.sparsity) > 0.005:
        raise InputError(f"{pattern} kept {kept} of {total} weights at {run.sparsity}")
    return at_once, accuracy(module, unseen)


def trained(task: Task, samples: int, epochs: int, seed: int) -> tuple[dict[str, Any], float]:
    """The weights of a dense network, and its accuracy."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    module = task.network()
    train(module, task, task.data(samples, 1), epochs, task.rate, None)
    state = {name: value.clone() for name, value in module.state_dict().items()}
    return state, accuracy(module, task.data(UNSEEN, 2))


def main() -> None:
    """Train, prune, train; print a line for each network, pattern and sparsity."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", default=",".join(TASKS))
    parser.add_argument("--sparsities", default="0.5,0.75,0.9")
    parser.add_argument("--patterns", default=",".join((*PATTERNS, *TIED)))
    parser.add_argument("--samples", type=int, default=4000)
    parser.add_argument("--epochs", type=int, help="of the dense network; each has its own")
    parser.add_argument("--fine-tuning", type=int, default=3, help="epochs of each stage")
    parser.add_argument(
        "--seeds", type=int, default=1, help="networks whose accuracies are averaged"
    )
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--output", type=Path, help="JSON file of the accuracies")
    options = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        for name in options.networks.split(","):
            found[name] = {}
            for what, accuracies in measured(name, options, pool):
                found[name][what] = accuracies
                if options.output:
                    options.output.write_text(json.dumps(found, indent=1) + "\n")


def measured(
    name: str, options: argparse.Namespace, pool: ProcessPoolExecutor
) -> Iterator[tuple[str, Any]]:
    """The mean accuracies of a network over seeds, dense and by pattern and sparsity."""
    task, seeds = TASKS[name], range(options.seeds)
    epochs = options.epochs or task.epochs
    dense = list(pool.map(trained, repeat(task), repeat(options.samples), repeat(epochs), seeds))
    whole = sum(each for _, each in dense) / len(dense)
    print(f"{name}: {whole:.3f} of {UNSEEN} unseen samples are classified rightly", flush=True)
    yield "dense", whole
    asked = [
        (pattern, sparsity)
        for pattern in options.patterns.split(",")
        for sparsity in map(float, options.sparsities.split(","))
    ]
    runs = [
        Run(name, dense[s][0], *each, options.samples, options.fine_tuning, s)
        for each in asked
        for s in seeds
    ]
    results = pool.map(pruned_accuracies, runs)
    for pattern, sparsity in asked:
        own = list(islice(results, len(seeds)))
        if isinstance(own[0], str):
            print(f"{name} {pattern:7} {sparsity:5}: {own[0]}", flush=True)
            continue
        before, after = (sum(one) / len(own) for one in zip(*own, strict=True))
        text = f"{before:.3f} pruned, {after:.3f} in stages"
        print(f"{name} {pattern:7} {sparsity:5}: {text}", flush=True)
        yield f"{pattern} {sparsity}", {"pruned": before, "fine-tuned": after}


if __name__ == "__main__":
    main()
