"""Configurations that a model expects to be fast for a workload, out of a few that may well be.

Candidates are the untuned default of each template and what is one knob away from it; two knobs,
where the preferred template has few knobs. Neither what was fast for other workloads is one nor
what a template estimates to be fastest among random draws: such choices for ResNet-50's layers were
slower than their defaults on average, or at worst by a third (`search/README.md`).
"""

from __future__ import annotations

import dataclasses
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
from autoq.templates.base import Template
from autoq.templates.target import Target
from autoq.templates.workload import Workload

# So few neighbours, as a grouped convolution has, leave most of a template out of reach.
_FEW = 20
# A default promises nothing over itself.
_TINY = 1e-9


@dataclass(frozen=True)
class Prediction:
    """A legal configuration, and what each member of a model predicts of it.

    That is the log of its time over the workload's best.
    """

    template: Template
    config: Any
    by_member: tuple[float, ...]

    @property
    def slowness(self) -> float:
        """What the model predicts: the mean over its members."""
        return float(np.mean(self.by_member))


@functools.lru_cache(maxsize=1024)
def default_of(template: Template, workload: Workload, target: Target) -> Any:
    """The untuned configuration of a template, which takes up to a fifth of a second to find."""
    return template.default(workload, target)


def predicted(
    model: KnowledgeModel, workload: Workload, templates: Sequence[Template], target: Target
) -> list[Prediction]:
    """Candidates by predicted time, the fastest first; none where the model knows no template.

    templates: those that match the workload, the preferred one first.
    A configuration that failed for a workload of the records is none.
    """
    known = [t for t in templates if model.about.versions.get(t.name) == t.version]
    found: list[Prediction] = []
    failed = {_key(name, config) for name, config in model.about.failed}
    for template in known:
        space = template.space(workload, target)
        codes = _around(
            space, space.code(default_of(template, workload, target)), template is templates[0]
        )  # fmt: skip
        configs = {code: space.config(code) for code in codes}
        codes = [c for c in codes if _key(template.name, plain_config(configs[c])) not in failed]
        legal = np.array(codes, np.int64)
        features = model.columns.matrix(workload, template.name, space, legal, target)
        found += [
            Prediction(template, configs[code], tuple(each.tolist()))
            for code, each in zip(codes, model.predict_each(features).T, strict=True)
        ]
    return sorted(found, key=lambda one: one.slowness)


def _around(space: Space[Any], default: int, preferred: bool) -> list[int]:
    """A default and its neighbours; those of the preferred template's too, where they are few."""
    beside = space.neighbour_codes(default).tolist()
    if preferred and len(beside) < _FEW:
        beside += [code for one in beside for code in space.neighbour_codes(one).tolist()]
    return list(dict.fromkeys([default, *beside]))


def knobs_apart(one: Any, other: Any) -> int:
    """In how many knobs two configurations of a template differ."""
    return sum(getattr(one, f.name) != getattr(other, f.name) for f in dataclasses.fields(one))


def most_promising(
    found: Sequence[Prediction], template: Template, default: Any
) -> tuple[Prediction, float] | None:
    """Of `predicted` what promises most over a template's default, and the log of how much.

    None where the default is not among the predictions.
    """
    own = [i for i, one in enumerate(found) if one.template is template and one.config == default]
    if not own:
        return None
    promised = promises(np.array([one.by_member for one in found]).T, own[0])
    best = int(np.argmax(promised))
    return found[best], float(promised[best])


def promises(by_member: np.ndarray, default: int) -> np.ndarray:
    """How much faster than one of them configurations promise to be, as a log: float64 [n].

    by_member: predictions [members, n]; what members do not agree on is promised less, by the
    deviation of what they say.
    """
    gains = by_member[:, default, None] - by_member
    return np.asarray(gains.mean(axis=0) - gains.std(axis=0))


def worthwhile(
    found: Sequence[Prediction], template: Template, default: Any, least: float
) -> Prediction | None:
    """What of `predicted` promises most, where that is enough over a template's default; else None.

    least: in the logarithm of the time.
    """
    best = most_promising(found, template, default)
    return best[0] if best is not None and best[1] >= max(least, _TINY) else None


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
