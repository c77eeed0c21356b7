"""Every CUDA template on the architectures that it takes: right on the emulator, eager and late.

Each pair has another of the small cases for its default configuration, and others for sampled ones.
Each template's defaults for sm_75 and for the newest architecture that it takes also compile, with
the headers that are found to be needed: others would do too, but take longer.
`scripts/emulate_kernels.py` does the same for as many configurations as there is time for.
"""

from __future__ import annotations

import runpy
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from with_nvcc import needs_nvcc

from autoq.templates.base import Template
from autoq.templates.hardware import HARDWARE
from autoq.templates.registry import TEMPLATES
from autoq.templates.target import Target, parse_target
from autoq.templates.workload import Workload
from ptx.kernels import wrong

TARGETS = [parse_target(f"cuda:{arch}") for arch in HARDWARE]
_FILE = Path(__file__).parents[2] / "scripts" / "cases" / "small_cases.py"
CASES: list[Workload] = runpy.run_path(str(_FILE))["CASES"]
# The families with the most knobs, and how many configurations beside the default are drawn.
SAMPLES = {"sm_80": 1, "sm_90a": 1}


def matched(template: Template, target: Target) -> list[Workload]:
    """The cases that a template computes on a target."""
    return [case for case in CASES if template.matches(case, target)]


def takes_turns(number: int, target: Target) -> bool:
    """Whether a template is run for a target: sm_86 has every other one, sm_89 those between.

    Their kernels are sm_80's, with other sizes of shared memory and, on sm_89, 8-bit floats.
    """
    return {"sm_86": number % 2 == 0, "sm_89": number % 2 == 1}.get(target.arch, True)


PAIRS = [
    (template, target)
    for number, template in enumerate(TEMPLATES)
    for target in TARGETS
    if matched(template, target) and takes_turns(number, target)
]


def candidates(template: Template, target: Target) -> list[tuple[Workload, Any]]:
    """Cases with a configuration each, others for every architecture."""
    found = matched(template, target)
    first = TARGETS.index(target)
    picked = [(case := found[first % len(found)], template.default(case, target))]
    rng = np.random.default_rng(zlib.crc32(f"{template.name} {target.arch}".encode()))
    for number in range(SAMPLES.get(target.arch, 0) if template.tunable else 0):
        case = found[(first + 1 + number) % len(found)]
        picked += [(case, config) for config in template.space(case, target).sample(rng, 1)]
    return picked


NEWEST = {template.name: target for template, target in PAIRS}


@needs_nvcc
@pytest.mark.parametrize(
    ("template", "target"), PAIRS, ids=[f"{t.name}-{target.arch}" for t, target in PAIRS]
)
def test_template_is_right(template: Template, target: Target) -> None:
    complaints = []
    for number, (case, config) in enumerate(candidates(template, target)):
        compiles = number == 0 and target in (TARGETS[0], NEWEST[template.name])
        complaint = wrong(template, case, config, target, compiles=compiles)
        if complaint is not None:
            complaints.append(f"{case} {config}: {complaint}")
    assert not complaints, "\n".join(complaints)


def test_every_template_has_a_case() -> None:
    cuda = {t.name for t in TEMPLATES if t.space.__module__.startswith("autoq.templates.cuda")}
    assert cuda <= {template.name for template, _ in PAIRS}
