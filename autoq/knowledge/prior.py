"""What a model of records says of a whole space, for a search that begins with it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from autoq.knowledge.model import KnowledgeModel
from autoq.search.strategies.prior_mean import Prior
from autoq.search.union import UnionSpace
from autoq.templates.target import Target
from autoq.templates.workload import Workload


def prior_of(
    model: KnowledgeModel,
    workload: Workload,
    space: UnionSpace,
    target: Target,
    versions: Mapping[str, int],
) -> Prior:
    """Log of the time over the workload's best as predicted of codes [n] of a space: float64 [n].

    NaN for templates that no record of the model is of, or only records of another version.
    """
    present = {name for name, version in versions.items() if model.knows(name, version)}

    def known(codes: np.ndarray) -> np.ndarray:
        found = np.full(len(codes), np.nan)
        for name, member, rows, inner in space.by_member(codes):
            if name in present:
                features = model.columns.matrix(workload, name, member, inner, target)
                found[rows] = model.predict(features)
        return found

    return known
