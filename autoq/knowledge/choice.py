"""Configurations that a model expects to be fast for a workload, out of a few that may well be.

Candidates of each template are its untuned default, those that it estimates to be fastest among
random draws, and what mutation finds from all draws that the model expects to be fast.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.knowledge.climb import Slowness, climbed, slowness_of
from autoq.knowledge.model import KnowledgeModel
from autoq.records.siblings import siblings
from autoq.search.knobs import plain_config
from autoq.search.search_space import ESTIMATE
from autoq.search.space import Space
from autoq.search.union import Candidate
from autoq.templates.base import Template
from autoq.templates.target import Target
from autoq.templates.workload import Workload

# Random configurations of each template, in parts that give a candidate each.
_DRAWS, _PARTS = 512, 6
# Candidates of a template that the model expects to be its fastest.
_BEST = 6


@dataclass(frozen=True)
class Prediction:
    """A legal configuration, and the log of its time as predicted and doubted, up to a constant."""

    template: Template
    config: Any
    slowness: float


@functools.lru_cache(maxsize=1024)
def default_of(template: Template, workload: Workload, target: Target) -> Any:
    """The untuned configuration of a template, which takes up to a fifth of a second to find."""
    return template.default(workload, target)


def predicted(
    model: KnowledgeModel,
    workload: Workload,
    templates: Sequence[Template],
    target: Target,
    beside: Candidate | None = None,
) -> list[Prediction]:
    """Candidates by predicted time, the fastest first; none where the model knows no template.

    templates: those that match the workload, the preferred one first; beside: a legal candidate
    that is looked at besides. A configuration that failed for a workload of the records is none.
    """
    known = [t for t in templates if model.knows(t.name, t.version)]
    found: list[Prediction] = []
    failed = {_key(name, config) for name, config in model.about.failed}
    for template in known:
        space = template.space(workload, target)
        slowness = slowness_of(model, workload, template.name, space, target)
        wanted = {space.code(default_of(template, workload, target))}
        if beside is not None and beside.template == template.name:
            wanted.add(space.code(beside.config))
        for code, slow in _candidates(space, sorted(wanted), slowness):
            config = space.config(code)
            if _key(template.name, plain_config(config)) not in failed:
                found.append(Prediction(template, config, slow))
    return sorted(found, key=lambda one: one.slowness)


def _candidates(
    space: Space[Any], wanted: Sequence[int], slowness: Slowness
) -> list[tuple[int, float]]:
    """Codes of a template's candidates, with the slowness that is asked of codes [n].

    wanted: codes that are candidates whatever their slowness.
    """
    rng = np.random.default_rng(0)
    draws = space.sample_codes(rng, _DRAWS, set(wanted))
    codes, slow = climbed(space, np.concatenate([wanted, draws]), slowness, rng)
    kept = {*wanted, *_estimated(space, draws)}
    kept.update(codes[np.argsort(slow, kind="stable")[:_BEST]].tolist())
    return [(code, one) for code, one in zip(codes.tolist(), slow.tolist(), strict=True)
            if code in kept]  # fmt: skip


def _estimated(space: Space[Any], draws: np.ndarray) -> list[int]:
    """The draw of least estimate of each part of some random draws, so that they differ."""
    names = space.feature_names
    if ESTIMATE not in names:
        return []
    estimates = space.encode_codes(draws)[:, names.index(ESTIMATE)]
    parts = [np.arange(i, len(draws), _PARTS) for i in range(min(_PARTS, len(draws)))]
    return [int(draws[part[np.argmin(estimates[part])]]) for part in parts]


def worthwhile(found: Sequence[Prediction], over: Candidate, least: float) -> Prediction | None:
    """The fastest of `predicted`, where it promises enough over one of its candidates; else None.

    least: in the logarithm of the time.
    """
    own = [one.slowness for one in found if Candidate(one.template.name, one.config) == over]
    if own and own[0] - found[0].slowness >= least:
        return found[0]
    return None


def usable(
    models: Iterable[KnowledgeModel], arch: str, device: str | None
) -> KnowledgeModel | None:
    """The first model of a device, else of one with the same chip (`records/siblings.py`).

    Of any of the architecture where the device is not known.
    """
    fitting = [model for model in models if model.about.arch == arch]
    if device is None:
        return next(iter(fitting), None)
    for name in (device, *siblings(device)):
        for model in fitting:
            if model.about.device == name:
                return model
    return None


def _key(template: str, config: Any) -> str:
    return json.dumps([template, config], sort_keys=True)
