"""Configurations that a model expects to be fast for a workload, out of a few that may well be.

Candidates are the untuned default of each template, and those that it estimates to be fastest among
random draws. All but the preferred template's default are doubted by
as much as the members of the model disagree. Neither what was fast for other workloads nor what a
model finds by itself is a candidate: such choices are no faster on average (`search/README.md`).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.knowledge.model import KnowledgeModel
from autoq.records.siblings import siblings
from autoq.search.knobs import plain_config
from autoq.search.space import Space
from autoq.search.strategies.estimated_model import ESTIMATE
from autoq.templates.base import Template
from autoq.templates.target import Target
from autoq.templates.workload import Workload

# Random configurations of each template, in parts that give a candidate each.
_DRAWS, _PARTS = 512, 6


@dataclass(frozen=True)
class Prediction:
    """A legal configuration, and the log of its time as predicted, up to a constant.

    slowness has the doubt in it, but for the default of the preferred template.
    """

    template: Template
    config: Any
    slowness: float


@functools.lru_cache(maxsize=1024)
def default_of(template: Template, workload: Workload, target: Target) -> Any:
    """The untuned configuration of a template, which takes up to a fifth of a second to find."""
    return template.default(workload, target)


def predicted(
    model: KnowledgeModel, workload: Workload, templates: Sequence[Template], target: Target
) -> list[Prediction]:
    """Candidates by predicted time, the fastest first; none where the model knows no template.

    templates: those that match the workload, the preferred one first. A configuration that failed
    for a workload of the records is none.
    """
    known = [t for t in templates if model.about.versions.get(t.name) == t.version]
    found: list[Prediction] = []
    failed = {_key(name, config) for name, config in model.about.failed}
    for template in known:
        space = template.space(workload, target)
        default = space.code(default_of(template, workload, target))
        codes = [default, *_estimated(space, [default])]
        configs = {code: space.config(code) for code in codes}
        codes = [c for c in codes if _key(template.name, plain_config(configs[c])) not in failed]
        legal = np.array(codes, np.int64)
        features = model.columns.matrix(workload, template.name, space, legal, target)
        means, doubts = model.doubted(features)
        for code, mean, doubt in zip(codes, means.tolist(), doubts.tolist(), strict=True):
            own = template is templates[0] and code == default
            found.append(Prediction(template, configs[code], mean if own else mean + doubt))
    return sorted(found, key=lambda one: one.slowness)


def _estimated(space: Space[Any], but: Sequence[int]) -> list[int]:
    """The draw of least estimate of each part of some random draws, so that they differ."""
    names = space.feature_names
    if ESTIMATE not in names:
        return []
    codes = space.sample_codes(np.random.default_rng(0), _DRAWS, set(but))
    estimates = space.encode_codes(codes)[:, names.index(ESTIMATE)]
    parts = [np.arange(i, len(codes), _PARTS) for i in range(min(_PARTS, len(codes)))]
    return [int(codes[part[np.argmin(estimates[part])]]) for part in parts]


def worthwhile(
    found: Sequence[Prediction], template: Template, default: Any, least: float
) -> Prediction | None:
    """The fastest of `predicted`, where it promises enough over a template's default; else None.

    least: in the logarithm of the time.
    """
    own = [one.slowness for one in found if one.template is template and one.config == default]
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
