"""Rows of a 2:4 sparse factor as the lanes of a warp hold them: kept values, and their places."""

from __future__ import annotations

import numpy as np

from autoq.templates.cuda.device.mma.fragments import gather
from autoq.templates.cuda.device.mma.mma_sync import MmaSync
from autoq.templates.cuda.device.mma.registers import compress, metadata_words, to_words

FRAGMENT_BYTES = 512
"""Of the kept values of one instruction, 16 bytes a lane."""

NEIGHBOURS = np.array([2 * row if row < 8 else 2 * row - 15 for row in range(16)])
"""Which of 16 rows each row of the factor is, so that a lane's two are neighbours."""


def sparse_fragments(atom: MmaSync, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Kept values uint8 [..., FRAGMENT_BYTES] and metadata uint32 [..., lanes] of [..., 16, k].

    Raises ValueError where a chunk of four along k has more than two values.
    """
    *shape, m, k = rows.shape
    kept, places = compress(np.ascontiguousarray(rows).reshape(-1, k))
    values = to_words(gather(kept.reshape(*shape, m, k // 2), atom.a_fragment()), atom.a)
    lying = np.ascontiguousarray(values).view(np.uint8).reshape(*shape, FRAGMENT_BYTES)
    pairs = places.reshape(*shape, m, *places.shape[1:])
    return lying, metadata_words(pairs, atom.metadata_fragment())[..., 0]
