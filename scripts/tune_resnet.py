"""Tunes an int8 ResNet on this machine's GPU, batch by batch, for the records that ship.

Prints plain progress and, last, how many candidates a second were measured.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import autoq
from autoq.report.progress import PlainProgress
from autoq.tuner import list_tasks

sys.path.insert(0, str(Path(__file__).parent))
from make_model import make_network


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--depth", type=int, default=50, choices=(18, 34, 50, 101))
    parser.add_argument("--batches", default="8")
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--trials-per-task", type=int, default=64)
    parser.add_argument("--time-budget", type=float, help="seconds for each batch size")
    parser.add_argument("--tasks", default="all")
    parser.add_argument("--models", type=Path, default=Path("build/models"))
    parser.add_argument("--cache", type=Path, help="folder of compiled kernels")
    parser.add_argument("--folder", type=Path, required=True, help="for the record files")
    options = parser.parse_args()
    model = make_network(f"resnet{options.depth}", 224, options.models)
    options.folder.mkdir(parents=True, exist_ok=True)
    for batch in map(int, options.batches.split(",")):
        shapes = {"input": (batch, 3, 224, 224)}
        rows = list_tasks(model, target=options.target, input_shapes=shapes)
        with PlainProgress(sys.stdout) as on_event:
            summary = autoq.tune(
                model,
                trials=options.trials_per_task * len(rows),
                trials_per_task=options.trials_per_task,
                time_budget=options.time_budget,
                tasks=options.tasks,
                target=options.target,
                input_shapes=shapes,
                output=options.folder / f"resnet{options.depth}.n{batch}.jsonl",
                cache_dir=options.cache,
                on_event=on_event,
            )
        rate = summary.measured / summary.elapsed_seconds
        print(f"batch {batch}: {rate:.1f} candidates a second")


if __name__ == "__main__":
    main()
