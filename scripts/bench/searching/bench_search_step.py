"""How long rules, features and steps of a search take on one core, without a device.

For every template of the recorded workloads: seconds of this process to find 20,000 legal
configurations in a new space and to encode them, or as many as there are, given for 20,000; and
seconds for the first 128, as what a new space costs. For some workloads the median of a search's
questions for eight configurations each, over all templates, from the third on.
"""

from __future__ import annotations

import argparse
import json
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from autoq.devices import resolve
from autoq.measure.job import REGISTRY, load_registry
from autoq.records.recorded_space import read_space
from autoq.replaying.loading import shipped_spaces
from autoq.search.registry import STRATEGIES
from autoq.search.trial import Trial
from autoq.search.union import Candidate, UnionSpace
from autoq.templates.target import Target
from autoq.templates.workload import Workload

_CODES, _FIRST = 20_000, 128
_STEPS = 10
_STEPPED = ("n8-3x3-28x28x128-128-7f", "n8-3x3-7x7x512-512-6e", "gemm-3456", "256-g32")


def template_row(template: Any, workload: Workload, target: Target) -> dict[str, Any]:
    """Seconds for 20,000 legal codes of a template's space."""
    template.space(workload, target).sample_codes(np.random.default_rng(0), _FIRST)  # warms up
    space = template.space(workload, target)
    start = time.process_time()
    space.sample_codes(np.random.default_rng(0), _FIRST)
    first = time.process_time() - start
    space = template.space(workload, target)
    start = time.process_time()
    codes = space.sample_codes(np.random.default_rng(0), _CODES)
    sampled = time.process_time()
    space.encode_codes(codes)
    encoded = time.process_time()
    scale = _CODES / len(codes)
    return {
        "template": template.name,
        "workload": str(workload),
        "size": space.size,
        "codes": len(codes),
        "first_seconds": round(first, 3),
        "sample_seconds": round((sampled - start) * scale, 3),
        "encode_seconds": round((encoded - sampled) * scale, 3),
    }


def step_row(templates: list[Any], workload: Workload, target: Target) -> dict[str, Any]:
    """Seconds of a search's questions over all templates that compute a workload."""
    space = UnionSpace({one.name: one.space(workload, target) for one in templates})
    strategy = STRATEGIES["informed"](space, 0)
    rng = np.random.default_rng(0)
    asked = [Candidate(one.name, one.default(workload, target)) for one in templates]
    seconds = []
    for _ in range(_STEPS):
        strategy.tell([Trial(one, 1e-5 * float(np.exp(0.3 * rng.normal()))) for one in asked])
        start = time.process_time()
        asked = strategy.ask(8)
        seconds.append(time.process_time() - start)
    return {
        "workload": str(workload),
        "templates": len(templates),
        "step_seconds": round(float(np.median(seconds[2:])), 3),
        "longest_seconds": round(max(seconds), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    target = resolve("cuda:sm_90a").target
    templates = [one for one in load_registry(REGISTRY).values() if one.tunable]
    seen: set[str] = set()
    rows, steps = [], []
    for path in shipped_spaces():
        workload = read_space(path).workload
        matching = [one for one in templates if one.matches(workload, target)]
        for one in matching:
            if one.name not in seen and one.space(workload, target).size > 1000:
                seen.add(one.name)
                rows.append(template_row(one, workload, target))
        if any(part in path.name for part in _STEPPED):
            steps.append(step_row(matching, workload, target))
    date = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    data = {"date": date, "templates": rows, "steps": steps}
    options.output.write_text(json.dumps(data, indent=1) + "\n")
    print(json.dumps(data, indent=1))


if __name__ == "__main__":
    main()
