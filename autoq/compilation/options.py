"""The options of a compilation, checked."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoq.cache import require_private
from autoq.errors import InputError
from autoq.graph.precision import make_precision
from autoq.measure.job import REGISTRY
from autoq.option_types import require_types
from autoq.paths import as_path


@dataclass(frozen=True)
class CompileOptions:
    """How to compile.

    cache_dir keeps machine code between calls; jobs compile at once, None for every core. registry:
    where templates are looked up, as in `tuning.options.TuneOptions`; the name of a package adds
    its own. precision, threshold, tolerance: float32 products through integers, as in
    `graph.precision.Precision`; None computes them in float32. knowledge: a model of
    `autoq logs train`, which goes before those that ship.
    """

    cache_dir: Path | None = None
    jobs: int | None = None
    registry: str = REGISTRY
    precision: str | None = None
    threshold: float | None = None
    tolerance: float | None = None
    knowledge: Path | None = None

    def __post_init__(self) -> None:
        require_types(self)
        if self.jobs is not None and self.jobs < 1:
            raise InputError(f"jobs {self.jobs}: give at least 1, or None for every core")
        make_precision(self.precision, self.threshold, self.tolerance)

    @property
    def threads(self) -> int:
        """Compilers at once."""
        return self.jobs or os.cpu_count() or 1


def make_options(options: Mapping[str, Any]) -> CompileOptions:
    """Options by field name; cache_dir may be text.

    Raises InputError for an unknown name, a value that none can have or a folder that others can
    write to.
    """
    known = {field.name for field in dataclasses.fields(CompileOptions)}
    unknown = sorted(set(options) - known)
    if unknown:
        raise InputError(f"unknown option {unknown[0]!r}; options are {', '.join(sorted(known))}")
    if options.get("cache_dir") is not None:
        options = {**options, "cache_dir": as_path(options["cache_dir"])}
        require_private(options["cache_dir"])
    if options.get("knowledge") is not None:
        options = {**options, "knowledge": as_path(options["knowledge"])}
    return CompileOptions(**options)
