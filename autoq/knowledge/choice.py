"""Configurations that a model expects to be fast for a workload, out of those that were elsewhere.

Candidates are the untuned default and what was fast for the workloads of the records, where it is
legal for this one. They are few, so that a choice takes milliseconds, and each has run somewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.errors import ConfigError
from autoq.knowledge.model import KnowledgeModel
from autoq.records.siblings import siblings
from autoq.templates.base import Template
from autoq.templates.target import Target
from autoq.templates.workload import Workload


@dataclass(frozen=True)
class Prediction:
    """A legal configuration, and the log of its time over the workload's best as predicted."""

    template: Template
    config: Any
    slowness: float


def predicted(
    model: KnowledgeModel, workload: Workload, templates: Sequence[Template], target: Target
) -> list[Prediction]:
    """Candidates by predicted time, the fastest first; none where the model knows no template.

    templates: those that match the workload, the preferred one first, whose default is a candidate.
    A configuration that failed for a workload of the records is none.
    """
    known = [t for t in templates if model.about.versions.get(t.name) == t.version]
    if not known:
        return []
    found: list[Prediction] = []
    failed = {_key(name, config) for name, config in model.about.failed}
    for template in known:
        space = template.space(workload, target)
        configs: dict[int, Any] = {}
        if template is templates[0]:
            default = template.default(workload, target)
            configs[space.code(default)] = default
        for name, values in model.about.portfolio:
            if name == template.name and _key(name, values) not in failed:
                try:
                    config = space.from_dict(values)
                except ConfigError:
                    continue
                configs.setdefault(space.code(config), config)
        codes = np.fromiter(configs, np.int64, len(configs))
        features = model.columns.matrix(workload, template.name, space, codes, target)
        scores = model.predict(features).tolist()
        found += map(Prediction, [template] * len(scores), configs.values(), scores)
    return sorted(found, key=lambda one: one.slowness)


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
