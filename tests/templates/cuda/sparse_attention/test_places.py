"""Keys stay in their slots, and groups see about as many of each residue there."""

from __future__ import annotations

import numpy as np
import pytest

from autoq.templates.cuda.sparse_attention.places import places_of
from autoq.templates.operators.sparse_attention import GROUP
from autoq.templates.sparse.vector_matrix import VectorMatrix, from_dense


def mask_of(seen: np.ndarray) -> VectorMatrix:
    """The mask of groups that see keys as a whole, [groups, keys]."""
    return from_dense(np.repeat(seen, GROUP, axis=0).astype(np.uint8), GROUP)


@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_keys_stay_in_their_slots(share: float) -> None:
    seen = np.random.default_rng(1).random((20, 300)) < share
    places = places_of(mask_of(seen), 384, 128)
    np.testing.assert_array_equal(np.sort(places), np.arange(384))
    np.testing.assert_array_equal(places // 128, np.arange(384) // 128)


@pytest.mark.parametrize("groups", [64, 2500])
def test_groups_see_as_many_of_each_residue(groups: int) -> None:
    """Counts vary by less than a third of what those of keys in their order do where there are few
    groups, and by less where there are more than are looked at.
    """
    seen = np.random.default_rng(2).random((groups, 512)) < 0.1
    places = places_of(mask_of(seen), 512, 256)
    found = {}
    for name, residues in (("before", np.arange(512) % 8), ("after", places % 8)):
        counts = [
            seen[:, slot][:, residues[slot] == r].sum(axis=1)
            for slot in (slice(0, 256), slice(256, 512))
            for r in range(8)
        ]
        found[name] = np.var(counts, axis=0).mean()
    assert found["after"] < (0.33 if groups == 64 else 0.9) * found["before"]
