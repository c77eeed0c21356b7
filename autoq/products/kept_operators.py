"""Compiled operators of this process, kept so that a second product of a shape compiles nothing."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autoq.devices import Host, require_device, resolve
from autoq.errors import InputError
from autoq.paths import as_path
from autoq.single_operator import CompiledOperator, operator
from autoq.templates.workload import Workload

MOST_KEPT = 4
"""Operators that are kept, each with the memory of its workspaces."""

_kept: OrderedDict[Hashable, CompiledOperator] = OrderedDict()
_lock = threading.Lock()


@dataclass(frozen=True)
class Place:
    """Where products are computed, and what decides their kernels: as in `autoq.operator`."""

    host: Host
    tuning_records: tuple[str | os.PathLike[str], ...] = ()
    use_shipped_records: bool = True
    cache_dir: Path | None = None

    def operator(self, workload: Workload, constants: Mapping[str, np.ndarray]) -> CompiledOperator:
        """A kernel of the workload with these small constants, compiled unless one is kept."""
        made_of = (workload, self)
        values = tuple((name, array.tobytes()) for name, array in sorted(constants.items()))
        with _lock:
            if (made_of, values) not in _kept:
                akin = next((kept for key, kept in _kept.items() if key[0] == made_of), None)
                _kept[made_of, values] = (
                    self.compiled(workload, constants) if akin is None
                    else akin.with_constants(constants)
                )  # fmt: skip
            _kept.move_to_end((made_of, values))
            if len(_kept) > MOST_KEPT:
                _kept.popitem(last=False)
            return _kept[made_of, values]

    def compiled(self, workload: Workload, constants: Mapping[str, Any]) -> CompiledOperator:
        """A kernel of the workload with these constants."""
        return operator(
            workload,
            target=self.host,
            constants=constants,
            tuning_records=self.tuning_records,
            use_shipped_records=self.use_shipped_records,
            cache_dir=self.cache_dir,
        )


def make_place(
    target: str | Host,
    tuning_records: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
    use_shipped_records: bool,
    cache_dir: str | os.PathLike[str] | None,
) -> Place:
    """The place that a caller names; raises TargetError where there is no such device."""
    host = target if isinstance(target, Host) else resolve(target)
    require_device(host)
    if isinstance(tuning_records, str | os.PathLike):
        tuning_records = (tuning_records,)
    if not isinstance(tuning_records, Sequence):
        raise InputError(f"tuning_records {tuning_records!r:.80}: record files are expected")
    folder = None if cache_dir is None else as_path(cache_dir)
    return Place(host, tuple(tuning_records), use_shipped_records, folder)
