"""Errors and densities of every form of the product: figures 6 and 8 and table 5 of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from residual.distributions import DISTRIBUTIONS, pair
from residual.rows import Case
from residual.variants import BY_VECTOR, ONE_SCALE, Variants, relative_error

BITS = (8, 4)
THRESHOLDS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 2.0)
PAPER_THRESHOLDS = (1.0, 0.8, 0.5)
"""Those of the paper's table 5, also those of the figure over sizes."""

SIZE = 1024
"""The size of the products in the figures over the threshold."""
SIZES = (64, 128, 256, 512, 1024, 2048)


def accuracy_row(name: str, bits: int, size: int) -> dict[str, Any]:
    """Relative errors of one distribution's product, and the densities at each threshold.

    `direct`, `full` and `sparse` have a scale for each row and column, `one_scale` has the same
    forms with one scale a matrix, and `cut_off` those with values cut off instead of rounded: full
    with one scale a matrix, sparse with vectors' scales.
    """
    a, b = pair(name, size)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    thresholds = THRESHOLDS if size == SIZE else PAPER_THRESHOLDS
    row = _forms(Variants(a, b, bits, BY_VECTOR), thresholds, exact)
    row["one_scale"] = _forms(Variants(a, b, bits, ONE_SCALE), thresholds, exact)
    if size == SIZE:
        whole = Variants(a, b, bits, ONE_SCALE, cut_off=True)
        by_vector = Variants(a, b, bits, BY_VECTOR, cut_off=True)
        row["cut_off"] = {
            "one_scale_full": relative_error(whole.full, exact),
            "sparse": _points(by_vector, PAPER_THRESHOLDS, exact),
        }
    return row


def _forms(forms: Variants, thresholds: Sequence[float], exact: np.ndarray) -> dict[str, Any]:
    return {
        "direct": relative_error(forms.direct, exact),
        "full": relative_error(forms.full, exact),
        "sparse": _points(forms, thresholds, exact),
    }


def _points(forms: Variants, thresholds: Sequence[float], exact: np.ndarray) -> list[Any]:
    found = forms.points(thresholds, exact)
    return [{"threshold": t, **vars(point)} for t, point in zip(thresholds, found, strict=True)]


def gains(row: dict[str, Any]) -> dict[str, Any]:
    """What scales of vectors and what the residual take off the error at the paper's thresholds.

    `scales` is the share of the error of a direct product with one scale a matrix that is gone with
    scales of vectors, `residual` the share of what remains that the sparse residual takes off, and
    `together` both. `over_full` is the paper's accuracy gain: 1 less the error over that of the
    full residual with one scale a matrix. `over_full_by_vector` is the same over the full residual
    with scales of vectors, and `over_full_cut_off` the first where values are cut off.
    """
    direct, whole = row["direct"], row["one_scale"]
    found: dict[str, Any] = {"scales": 1 - direct / whole["direct"], "thresholds": []}
    cut_off = {p["threshold"]: p["error"] for p in row.get("cut_off", {}).get("sparse", [])}
    for point in row["sparse"]:
        if point["threshold"] not in PAPER_THRESHOLDS:
            continue
        error = point["error"]
        gain = {
            "threshold": point["threshold"],
            "residual": 1 - error / direct,
            "together": 1 - error / whole["direct"],
            "over_full": 1 - error / whole["full"],
            "over_full_by_vector": 1 - error / row["full"],
        }
        if cut_off:
            largest = row["cut_off"]["one_scale_full"]
            gain["over_full_cut_off"] = 1 - cut_off[point["threshold"]] / largest
        found["thresholds"].append(gain)
    return found


def cases(sizes: Sequence[int]) -> list[Case]:
    """A row for each distribution, number of bits and size."""
    return [
        Case("accuracy", f"{name} {bits} bits {size}", partial(described_row, name, bits, size))
        for size in sizes
        for bits in BITS
        for name in DISTRIBUTIONS
    ]


def described_row(name: str, bits: int, size: int) -> dict[str, Any]:
    """`accuracy_row` with what it is of, and with the gains that follow from it."""
    row = accuracy_row(name, bits, size)
    return {"distribution": name, "bits": bits, "size": size, **row, "gains": gains(row)}
