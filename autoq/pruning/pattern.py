"""Which pattern weights are pruned in, and its figures."""

from __future__ import annotations

import numbers
import re
from dataclasses import dataclass

from autoq.errors import InputError
from autoq.templates.sparse.pruned_matrix import TWO_OF_FOUR, Vector

KINDS = {
    "ew": "element-wise",
    "vw": "vector-wise",
    "bw": "block-wise",
    "tw": "tile-wise",
    "trw": "tile-run-wise",
    "tew": "tile-element-wise",
    "tvw": "tile-vector-wise",
}
"""The name of every pattern, by what it is called in options."""

_GRANULARITIES = {"ew": 1, "vw": 4, "bw": 16, "tw": 128, "trw": 128, "tew": 128, "tvw": 128}
_DELTA = 0.05
_RUN = 16
_OWN = {"vector": "tvw", "delta": "tew", "run": "trw"}


@dataclass(frozen=True)
class Pattern:
    """A pattern and what it is made of.

    kind: a key of KINDS. granularity: columns of a tile, height and width of a block, or rows of
    a vector; 1 for single weights. vector: what tvw keeps of consecutive rows in a tile. delta:
    the share of all weights that tew keeps beside its tiles. run: consecutive rows of a tile that
    trw prunes together.

    Ask `make`, which checks what a user gives.
    """

    kind: str
    granularity: int
    vector: Vector = TWO_OF_FOUR
    delta: float = _DELTA
    run: int = _RUN

    @classmethod
    def make(
        cls,
        kind: str,
        granularity: int | None = None,
        vector: str | None = None,
        delta: float | None = None,
        run: int | None = None,
    ) -> Pattern:
        """The pattern of a user's options; None takes the default of each.

        Raises InputError for a pattern that is unknown or cannot have an option or its value.
        """
        if not isinstance(kind, str) or kind not in KINDS:
            raise InputError(f"pattern {kind!r:.40}; choose {' or '.join(KINDS)}")
        for name, given in {"vector": vector, "delta": delta, "run": run}.items():
            if given is not None and kind != _OWN[name]:
                raise InputError(f"{name} {given}: {kind} has none; it belongs to {_OWN[name]}")
        if granularity is None:
            granularity = _GRANULARITIES[kind]
        if not isinstance(granularity, numbers.Integral):
            raise InputError(f"granularity {granularity!r:.40}: an integer is expected")
        if granularity < 1 or (kind == "ew" and granularity != 1):
            does = "1 is what ew has" if kind == "ew" else f"{_GRANULARITIES[kind]} is usual"
            raise InputError(f"granularity {granularity}: {kind} takes 1 or more; {does}")
        if delta is not None and not 0 <= delta <= 1:
            raise InputError(f"delta {delta}: a share of the weights from 0 to 1, such as {_DELTA}")
        if run is not None and run < 1:
            raise InputError(f"run {run}: rows that are pruned together, 1 or more, such as {_RUN}")
        return cls(
            kind,
            granularity,
            TWO_OF_FOUR if vector is None else _vector(vector),
            _DELTA if delta is None else delta,
            _RUN if run is None else run,
        )

    def __str__(self) -> str:
        further = {
            "tvw": f" {self.vector}",
            "tew": f" delta {self.delta:g}",
            "trw": f" runs of {self.run}",
        }
        size = "" if self.kind == "ew" else f"-{self.granularity}"
        return f"{self.kind}{size}{further.get(self.kind, '')}"

    def vector_of(self, sparsity: float) -> Vector:
        """What vw keeps of each vector; raises InputError for a share that is no whole number."""
        kept = round(self.granularity * (1 - sparsity))
        nearest = 1 - kept / self.granularity
        if abs(nearest - sparsity) > TOLERANCE:
            raise InputError(
                f"sparsity {sparsity:g}: {self} prunes multiples of 1/{self.granularity}; the "
                f"nearest is {nearest:g}"
            )
        return Vector(kept, self.granularity)

    def require_sparsity(self, sparsity: float) -> None:
        """Raise InputError for a sparsity that the pattern cannot have."""
        if not isinstance(sparsity, numbers.Real) or not 0 <= sparsity <= 1:
            raise InputError(
                f"sparsity {sparsity!r:.40}: the share of weights to prune, from 0 to 1, "
                "such as 0.75"
            )
        if self.kind == "vw":
            self.vector_of(sparsity)
        if self.kind == "tvw" and sparsity < 1 - self.vector.share - TOLERANCE:
            raise InputError(
                f"sparsity {sparsity:g}: {self} prunes {1 - self.vector.share:g} or more; give "
                "that, or take tw"
            )
        if self.kind == "tew" and sparsity + self.delta > 1 + TOLERANCE:
            raise InputError(
                f"delta {self.delta:g}: with a sparsity of {sparsity:g} it is {1 - sparsity:g} at "
                "most"
            )

    @property
    def least(self) -> float:
        """The least sparsity of a matrix."""
        return 1 - self.vector.share if self.kind == "tvw" else 0.0


TOLERANCE = 0.005
"""How far the share of pruned weights may be off."""


def _vector(text: str) -> Vector:
    found = re.fullmatch(r"(\d{1,4}):(\d{1,4})", text)
    if found is None or not 0 < int(found[1]) <= int(found[2]):
        raise InputError(f"vector {text!r:.40}: how many of how many stay, such as 2:4 or 8:16")
    return Vector(int(found[1]), int(found[2]))
