"""A tile-wise weight as kernels on mma.sync read it, each stage of which also tells of the next."""

from __future__ import annotations

import numpy as np

from autoq.templates.cuda.pruned.picked.pack import stages_of as picked_stages_of
from autoq.templates.cuda.pruned.picked.steps import ADVANCE_AT, MOST_ADVANCE
from autoq.templates.cuda.pruned.picked_mma_sync.config import PickedCut


def stages_of(
    cut: PickedCut, weight: np.ndarray, columns: np.ndarray, kept: np.ndarray
) -> np.ndarray:
    """A tile's stages, uint8 [stages, bytes]: those of `picked.pack`, each knowing the next one."""
    return with_next(cut, picked_stages_of(cut, weight, columns, kept))


def with_next(cut: PickedCut, stages: np.ndarray) -> np.ndarray:
    """Stages [stages, bytes] that each say how many stages of x begin with the next one."""
    words = stages.view("<u4")
    begins = words[1:, cut.picks_at // 4] >> ADVANCE_AT & MOST_ADVANCE
    words[:-1, cut.next_at // 4] |= begins << ADVANCE_AT
    return stages
