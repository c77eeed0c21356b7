"""Trains a small network on generated images, prunes it in every pattern, and trains it again.

Needs torch (pip install torch), no GPU and no download. The accuracies are of a task that is made
here: they compare patterns, and say nothing of other networks.

    python scripts/prune_and_train.py --sparsities 0.5,0.75,0.9 --output accuracies.json
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from autoq.errors import AutoqError, InputError
from autoq.pruning.pattern import Pattern
from autoq.pruning.schedule import Stage, prune_in_stages
from autoq.pruning.torch_modules import KeptMasks, matrices, prunable, taylor_scores, write

try:
    import torch
    from torch import nn
    from torch.nn.functional import cross_entropy
except ImportError:
    sys.exit("prune_and_train: needs torch: pip install torch")

CLASSES, EXTENT, CHANNELS = 10, 8, 32
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
Batch = tuple[torch.Tensor, torch.Tensor]


def images(count: int, seed: int) -> Batch:
    """Images of CLASSES prototypes, shifted, scaled and noisy: float32 [count, 1, 8, 8]."""
    prototypes = np.random.default_rng(0).standard_normal((CLASSES, EXTENT, EXTENT))
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, count)
    shifts = rng.integers(-2, 3, (count, 2))
    made = np.stack(
        [np.roll(prototypes[k], shift, (0, 1)) for k, shift in zip(labels, shifts, strict=True)]
    )
    made = made * rng.uniform(0.5, 1.0, (count, 1, 1)) + 0.7 * rng.standard_normal(made.shape)
    return torch.from_numpy(made[:, None].astype(np.float32)), torch.from_numpy(labels)


def network() -> nn.Module:
    """Three convolutions and two linear layers."""
    return nn.Sequential(
        nn.Conv2d(1, CHANNELS, 3, padding=1), nn.ReLU(),
        nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(4 * CHANNELS, 64), nn.ReLU(), nn.Linear(64, CLASSES),
    )  # fmt: skip


def batches(data: Batch, size: int = 100) -> list[Batch]:
    """The data in parts."""
    return list(zip(data[0].split(size), data[1].split(size), strict=True))


def loss(module: nn.Module, batch: Batch) -> torch.Tensor:
    """Cross entropy of a batch."""
    return cross_entropy(module(batch[0]), batch[1])


def train(module: nn.Module, data: Batch, epochs: int, rate: float, stage: Stage | None) -> None:
    """Adam over the data; the masks of a stage are kept."""
    optimizer = torch.optim.Adam(module.parameters(), lr=rate)
    if stage is not None:
        KeptMasks(prunable(module, SKIPPED), stage.masks, optimizer)
    for _ in range(epochs):
        for part in torch.randperm(len(data[1])).split(50):
            optimizer.zero_grad()
            loss(module, (data[0][part], data[1][part])).backward()
            optimizer.step()


def accuracy(module: nn.Module, data: Batch) -> float:
    """The share of images that are classified rightly."""
    with torch.no_grad():
        return float((module(data[0]).argmax(1) == data[1]).double().mean())


SKIPPED = ("0.weight", "11.weight")
"""The first layer and the last stay dense, as is usual."""


def pruned_accuracies(
    dense: dict[str, torch.Tensor], pattern: Pattern, sparsity: float, epochs: int, data: Batch,
    unseen: Batch,
) -> tuple[float, float]:  # fmt: skip
    """Accuracies of a network pruned at once, and of one that is trained in stages."""
    module = network()
    weights = prunable(module, SKIPPED)

    def score(values):
        write(weights, values)
        return taylor_scores(module, weights, batches(data)[:10], loss)

    def fine_tune(stage):
        write(weights, stage.weights)
        train(module, data, epochs, 5e-4, stage)
        return matrices(weights)

    module.load_state_dict(dense)
    write(weights, prune_in_stages(matrices(weights), pattern, sparsity, 1.0, None, score).weights)
    at_once = accuracy(module, unseen)
    module.load_state_dict(dense)
    last = prune_in_stages(matrices(weights), pattern, sparsity, 0.25, fine_tune, score)
    write(weights, last.weights)
    kept = sum(int(mask.sum()) for mask in last.masks.values())
    total = sum(mask.size for mask in last.masks.values())
    if abs(1 - kept / total - sparsity) > 0.005:
        raise InputError(f"{pattern} kept {kept} of {total} weights at a sparsity of {sparsity}")
    return at_once, accuracy(module, unseen)


def main() -> None:
    """Train, prune, train; print a line for each pattern and sparsity."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sparsities", default="0.5,0.75,0.9")
    parser.add_argument("--patterns", default=",".join(PATTERNS))
    parser.add_argument("--images", type=int, default=3000)
    parser.add_argument("--epochs", type=int, default=15, help="of the dense network")
    parser.add_argument("--fine-tuning", type=int, default=3, help="epochs of each stage")
    parser.add_argument("--output", type=Path, help="JSON file of the accuracies")
    options = parser.parse_args()
    torch.manual_seed(0)
    data, unseen = images(options.images, 1), images(2000, 2)
    module = network()
    train(module, data, options.epochs, 1e-3, None)
    dense = {name: value.clone() for name, value in module.state_dict().items()}
    found = {"dense": accuracy(module, unseen)}
    print(f"dense: {found['dense']:.3f} of {len(unseen[1])} unseen images are classified rightly")
    for name in options.patterns.split(","):
        for sparsity in map(float, options.sparsities.split(",")):
            try:
                before, after = pruned_accuracies(
                    dense, PATTERNS[name], sparsity, options.fine_tuning, data, unseen
                )
            except AutoqError as error:
                print(f"{name:7} {sparsity:5}: {error}")
                continue
            found[f"{name} {sparsity}"] = {"pruned": before, "fine-tuned": after}
            print(f"{name:7} {sparsity:5}: {before:.3f} pruned, {after:.3f} in stages", flush=True)
    if options.output:
        options.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
