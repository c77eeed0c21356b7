"""Options of every product: where it is computed, and what decides its kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autoq.option_types import require_types
from autoq.products.kept_operators import Place, make_place


@dataclass(frozen=True, kw_only=True)
class PlacedOptions:
    """target, tuning_records, use_shipped_records and cache_dir are as in `autoq.operator`."""

    target: Any = "auto"
    tuning_records: Any = ()
    use_shipped_records: bool = True
    cache_dir: Any = None

    def __post_init__(self) -> None:
        require_types(self)

    @property
    def place(self) -> Place:
        """What computes products; raises TargetError where the target has no device here."""
        records = self.tuning_records
        return make_place(self.target, records, self.use_shipped_records, self.cache_dir)
