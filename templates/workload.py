"""Workloads: the distinct pieces of arithmetic a model is made of, each with a stable key.

A workload names shapes and dtypes only; scales, zero points and clamp bounds are data, so that
layers which differ in their quantisation alone share one kernel and one tuning record.
Activations are NHWC unless a convolution says NHWCnc (`layout.py`), weights KRSC. Shapes count
values; int4 and uint4 arrays are stored two values a byte along the channels (`storage.py`), which
`bytes` counts.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from typing import Any, ClassVar, cast

from autoq.templates.layout import NHWC


class Workload(ABC):
    """One operator at given shapes and dtypes: a frozen dataclass.

    A subclass is an operator. It is known by the name given as `class Add(Workload,
    operator="add")` from the moment that its module is imported.

    Raises TypeError for a second operator of one name.
    """

    operator: ClassVar[str]
    """Name of the operator in keys and reports."""

    OPERATORS: ClassVar[dict[str, type[Workload]]] = {}
    """Operators by their names, those whose modules are imported."""

    def __init_subclass__(cls, operator: str | None = None, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if operator is None:  # what several operators share
            return
        other = Workload.OPERATORS.get(operator)
        if other is not None and _place(other) != _place(cls):
            raise TypeError(f"two operators {operator!r}: {_place(other)} and {_place(cls)}")
        cls.operator = operator
        Workload.OPERATORS[operator] = cls

    @property
    @abstractmethod
    def y_shape(self) -> tuple[int, ...]:
        """Shape of the output."""

    @property
    @abstractmethod
    def operations(self) -> int:
        """Arithmetic operations."""

    @property
    @abstractmethod
    def bytes(self) -> int:
        """Bytes through device memory when every operand moves once."""

    @property
    def layouts(self) -> frozenset[str]:
        """Layouts that a template must know to compute the workload."""
        return frozenset((NHWC,))

    def key_fields(self) -> dict[str, Any]:
        """What the workload's key says besides its operator, ready for JSON."""
        return dataclasses.asdict(cast("Any", self))


def _place(operator: type) -> str:
    return f"{operator.__module__}.{operator.__qualname__}"
