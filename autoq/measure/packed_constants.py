"""Packed constants of one workload, kept for configurations that differ in other knobs alone."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from autoq.search.traced import Reads, traced_type
from autoq.templates.base import Template
from autoq.templates.workload import Constants, Workload

# Arrays that are kept, over all templates of the workload, where no other bound is given.
_MOST_BYTES = 1 << 29

Arrays = tuple[np.ndarray, ...]


class PackedConstants:
    """`Template.constants` of one workload, packed once for all configurations that pack alike.

    To pack the weights of a large sparse product takes a core 150 ms, a hundred times what the
    kernel takes to be timed, and most knobs have no part in it. Which ones have is seen by packing
    for a configuration that notes what is read of it: what came of it then holds for every
    configuration with the same values of these; a template whose `pack` reads knobs for what comes
    of them together says what that is (`Template.packs_by`). Nobody may write into the arrays.

    Attributes:
        bytes: of all arrays that are kept.
    """

    def __init__(
        self, workload: Workload, constants: Constants, most_bytes: int = _MOST_BYTES
    ) -> None:
        self._most_bytes = most_bytes
        self._workload = workload
        self._constants = constants
        self._reads: dict[str, set[tuple[str, ...]]] = defaultdict(set)
        self._kept: OrderedDict[tuple[Any, ...], Arrays] = OrderedDict()
        self.bytes = 0

    def of(self, template: Template, config: Any) -> Arrays:
        """The constants of a configuration; raises what `Template.constants` raises."""
        if template.packs_by is not None:
            said = (template.name, template.packs_by(self._workload, config))
            if said not in self._kept:
                self._keep(said, template.constants(self._workload, config, self._constants))
            self._kept.move_to_end(said)
            return self._kept[said]
        for names in self._reads[template.name]:
            key = _key(template, config, names)
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        if not dataclasses.is_dataclass(config):
            return template.constants(self._workload, config, self._constants)
        names = tuple(field.name for field in dataclasses.fields(config))
        reads = Reads()
        traced = traced_type(type(config), names)([getattr(config, name) for name in names], reads)
        try:
            arrays = template.constants(self._workload, traced, self._constants)
        except (TypeError, AttributeError):
            # Its `pack` needs more than a configuration's knobs and methods, such as a copy of it.
            return template.constants(self._workload, config, self._constants)
        read = tuple(names[at] for at in sorted(reads))
        self._reads[template.name].add(read)
        self._keep(_key(template, config, read), arrays)
        return arrays

    def _keep(self, key: tuple[Any, ...], arrays: Arrays) -> None:
        self._kept[key] = arrays
        self.bytes += _size(arrays)
        while self.bytes > self._most_bytes and len(self._kept) > 1:
            self.bytes -= _size(self._kept.popitem(last=False)[1])


def _key(template: Template, config: Any, names: Sequence[str]) -> tuple[Any, ...]:
    return template.name, names, *(getattr(config, name) for name in names)


def _size(arrays: Arrays) -> int:
    return sum(array.nbytes for array in arrays)
