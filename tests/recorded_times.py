"""What the recorded spaces that ship say of a template: times beside estimates and defaults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from autoq.errors import ConfigError
from autoq.records.recorded_space import PREDICTED, read_space
from autoq.replaying.loading import shipped_spaces, target_of
from autoq.search.search_space import ESTIMATE
from autoq.templates.base import Template
from autoq.templates.target import Target
from autoq.templates.workload import Workload


@dataclass(frozen=True)
class RecordedTimes:
    """Of one template on one workload, configurations that were timed; seconds: float64 [n].

    predicted: bool [n], whether a model drew them for being fast.
    """

    template: Template
    workload: Workload
    target: Target
    configs: list[Any]
    seconds: np.ndarray
    predicted: np.ndarray

    @property
    def estimates(self) -> np.ndarray:
        """The template's own estimate of each configuration, float64 [n]."""
        space = self.template.space(self.workload, self.target)
        codes = np.array([space.code(one) for one in self.configs])
        return space.encode_codes(codes)[:, space.feature_names.index(ESTIMATE)]

    @property
    def default_over_best(self) -> float | None:
        """Time of the untuned configuration over the best one's; None where it was not timed."""
        default = self.template.default(self.workload, self.target)
        if default not in self.configs:
            return None
        return float(self.seconds[self.configs.index(default)] / self.seconds.min())


def rank_correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's, of values that are hardly ever equal."""
    ranks = [np.argsort(np.argsort(one)) for one in (first, second)]
    return float(np.corrcoef(*ranks)[0, 1])


def recorded_times(
    template: Template, device: str, least: int, wanted: Callable[[Workload], bool]
) -> list[RecordedTimes]:
    """The shipped spaces of a device whose name says so, with so many times of a template."""
    found = []
    for path in shipped_spaces():
        recorded = read_space(path)
        if device not in recorded.device.name or not wanted(recorded.workload):
            continue
        target = target_of(recorded)
        own = [one for one in recorded.trials if one.template == template.name and one.seconds]
        if len(own) < least or own[0].version != template.version:
            continue
        space = template.space(recorded.workload, target)
        legal = {}
        for one in own:
            try:
                legal[space.from_dict(one.config)] = one.seconds, one.drawn == PREDICTED
            except ConfigError:
                continue  # of rules that were less strict
        times, predicted = map(np.array, zip(*legal.values(), strict=True))
        found.append(RecordedTimes(template, recorded.workload, target, [*legal], times, predicted))
    return found
