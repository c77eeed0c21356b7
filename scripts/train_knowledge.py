"""Trains the model of records that ships, on the recorded spaces of a chip.

    python scripts/train_knowledge.py -o tuning_logs/h200/knowledge.json.xz

The model begins every search. `--decides TEMPLATE=RATIO` names the preferred templates of those
workloads whose untuned choice it makes as well, and how much faster than the default that choice
has to promise to be: families for which `bench/searching/bench_predicted.py` shows that the choice
is at least as fast as the untuned default. All others keep their estimates. `--without FILE` leaves
out every workload of a shape that a network has, given as its ONNX file or as records of it,
whatever the batch and the dtypes: a model that has seen nothing of it, to judge how it does there.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from autoq.devices import resolve
from autoq.knowledge.lessons import shape_of
from autoq.knowledge.model import LARGEST_BYTES
from autoq.knowledge.training import model_of
from autoq.measure.job import REGISTRY, load_registry
from autoq.recording.workloads import given_workloads
from autoq.replaying.loading import shipped_spaces


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trials", type=Path, nargs="*", help="recorded spaces and record files")
    parser.add_argument("--decides", nargs="*", default=[], help="TEMPLATE=RATIO, e.g. 1.06")
    parser.add_argument("--without", type=Path, nargs="*", default=[], help="networks, or records")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="threads")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    templates = load_registry(REGISTRY)
    decides = {name: float(least) for name, least in (one.split("=") for one in options.decides)}
    unknown = sorted(set(decides) - set(templates))
    if unknown:
        parser.error(f"--decides: no template is called {', '.join(unknown)}")
    paths = options.trials or shipped_spaces()
    target = resolve("cuda:sm_90a").target
    without = {
        shape_of(workload) for path in options.without
        for workload in given_workloads(path, target, list(templates.values()))
    }  # fmt: skip
    model = model_of(
        paths, templates, nthread=options.jobs, decides=decides, without=without
    )  # fmt: skip
    size = model.save(options.output)
    about = model.about
    print(f"{about.trials} trials of {about.workloads} workloads on {about.device}: {size} bytes")
    if size > LARGEST_BYTES:
        raise SystemExit(f"{options.output}: a model that ships has at most {LARGEST_BYTES} bytes")


if __name__ == "__main__":
    main()
