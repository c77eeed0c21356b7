"""Trains the model of records that ships, on the recorded spaces of a chip.

    python scripts/train_knowledge.py -o tuning_logs/h200/knowledge.json.xz

The model begins every search. `--decides TEMPLATE=RATIO` names the preferred templates of those
workloads whose untuned choice it makes as well, and how much faster than the default that choice
has to promise to be: families for which `bench/searching/bench_predicted.py` shows that the choice
is at least as fast as the untuned default. All others keep their estimates.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from autoq.knowledge.model import LARGEST_BYTES
from autoq.knowledge.training import model_of
from autoq.measure.job import REGISTRY, load_registry
from autoq.replaying.loading import shipped_spaces


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trials", type=Path, nargs="*", help="recorded spaces and record files")
    parser.add_argument("--decides", nargs="*", default=[], help="TEMPLATE=RATIO, e.g. 1.06")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    templates = load_registry(REGISTRY)
    decides = {name: float(least) for name, least in (one.split("=") for one in options.decides)}
    unknown = sorted(set(decides) - set(templates))
    if unknown:
        parser.error(f"--decides: no template is called {', '.join(unknown)}")
    paths = options.trials or shipped_spaces()
    jobs = len(os.sched_getaffinity(0))
    model = model_of(paths, templates, nthread=jobs, decides=decides)
    size = model.save(options.output)
    about = model.about
    print(f"{about.trials} trials of {about.workloads} workloads on {about.device}: {size} bytes")
    if size > LARGEST_BYTES:
        raise SystemExit(f"{options.output}: a model that ships has at most {LARGEST_BYTES} bytes")


if __name__ == "__main__":
    main()
