"""Configurations that note which of their knobs were read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any


class Reads(set[int]):
    """Positions of the knobs that were read of a traced configuration."""


@lru_cache(maxsize=256)
def traced_type(config_type: type[Any], names: tuple[str, ...]) -> Callable[..., Any]:
    """Makes traced configurations of a dataclass: (values in the order of names, reads).

    They have the methods and properties of the dataclass. Each is equal to itself alone, so that
    a cache of what follows from a configuration holds nothing for it that another one's reads
    would have led to.
    """
    members: dict[str, Any] = {
        "__init__": _start,
        "__eq__": object.__eq__,
        "__hash__": object.__hash__,
        "__doc__": config_type.__doc__,
    }
    members |= {name: property(_reader(at)) for at, name in enumerate(names)}
    return type(f"Traced{config_type.__name__}", (config_type,), members)


def _start(self: Any, values: Sequence[Any], reads: Reads) -> None:
    self.__dict__["_values"], self.__dict__["_reads"] = values, reads


def _reader(at: int) -> Callable[[Any], Any]:
    def read(self: Any) -> Any:
        held = self.__dict__
        held["_reads"].add(at)
        return held["_values"][at]

    return read
