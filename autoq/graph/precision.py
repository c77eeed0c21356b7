"""Precision that a user asks for: what a model keeps in floats, computed through integers."""

from __future__ import annotations

from dataclasses import dataclass

from autoq.errors import InputError
from autoq.residual.setting import (
    DEFAULT_THRESHOLD,
    Setting,
    require_number,
    require_tolerance,
)

PRECISIONS = {"residual8": 8, "residual4": 4}
"""Bits of the integers of float32 products of constant matrices, by name."""

ATTENTION_PRECISIONS = {"attention16-8": (16, 8), "attention8-8": (8, 8), "attention8-4": (8, 4)}
"""Bits of the softmax and of q, k and v of attention under sparse masks, by name."""


@dataclass(frozen=True)
class AttentionPrecision:
    """How attention of 16-bit floats under sparse constant masks is computed.

    name: one of ATTENTION_PRECISIONS. What it loses is that of `autoq.sparse_attention`.
    """

    name: str

    @property
    def softmax_bits(self) -> int:
        return ATTENTION_PRECISIONS[self.name][0]

    @property
    def qkv_bits(self) -> int:
        return ATTENTION_PRECISIONS[self.name][1]


@dataclass(frozen=True)
class ResidualPrecision:
    """How the Linear layers and convolutions of a float32 model are computed.

    name: one of PRECISIONS. threshold: that of the sparse correction of every layer; 0 corrects
    fully, infinity not at all. tolerance: instead, a relative error, within which each layer is to
    stay at the least cost (`graph/corrections.py`).

    Raises InputError for values that none can have, and for both of them.
    """

    name: str
    threshold: float = DEFAULT_THRESHOLD
    tolerance: float | None = None

    def __post_init__(self) -> None:
        if self.name not in PRECISIONS:
            known = ", ".join((*PRECISIONS, *ATTENTION_PRECISIONS))
            raise InputError(f"precision {self.name!r:.80}: choose one of {known}")
        require_number("threshold", self.threshold, 0.0)
        if self.tolerance is not None:
            require_tolerance(self.tolerance)

    @property
    def bits(self) -> int:
        return PRECISIONS[self.name]

    def setting(self, crossover: float) -> Setting:
        """What every layer starts from: full where its correction is still to be chosen."""
        threshold = self.threshold if self.tolerance is None else 0.0
        return Setting(self.bits, "sparse", float(threshold), crossover).plainest


Precision = ResidualPrecision | AttentionPrecision


def make_precision(
    precision: str | None, threshold: float | None, tolerance: float | None
) -> Precision | None:
    """The precision that options name, None without one; raises InputError for other values."""
    if precision is None or precision in ATTENTION_PRECISIONS:
        for option, value in (("threshold", threshold), ("tolerance", tolerance)):
            if value is not None:
                raise InputError(f"{option} {value!r:.80}: needs a precision such as residual8")
        return None if precision is None else AttentionPrecision(precision)
    if threshold is not None and tolerance is not None:
        raise InputError("threshold and tolerance: the tolerance chooses thresholds; give one")
    return ResidualPrecision(
        precision, DEFAULT_THRESHOLD if threshold is None else threshold, tolerance
    )
