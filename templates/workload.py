"""Workloads: the distinct pieces of arithmetic a model is made of, each with a stable key.

A workload names shapes and dtypes only; scales, zero points and clamp bounds are data, so that
layers which differ in their quantisation alone share one kernel and one tuning record.
Activations are NHWC unless a convolution says NHWCnc (`arrays/layout.py`), weights KRSC. Shapes
count values; int4 and uint4 arrays are stored two values a byte along the channels
(`arrays/storage.py`), which `bytes` counts. In numpy 4-bit values are unpacked, int8 for int4 and
uint8 for uint4.
"""

from __future__ import annotations

import dataclasses
import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from autoq.errors import InputError
from autoq.templates.arrays.layout import LAYOUTS
from autoq.templates.arrays.storage import is_four_bit, value_dtype
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.field_types import require_types
from autoq.templates.sparse.sparsity import Sparsity
from autoq.templates.target import Target

Arrays = tuple[np.ndarray, ...]

Constants = Mapping[str, Any]
"""Constants of one layer in their canonical form, by the names of `Workload.constants`."""


@dataclass(frozen=True)
class Tolerance:
    """How far an output may lie from the reference: steps of an integer, or a share of a float.

    A float's share is of the element, or of the output's root mean square where that is larger,
    since sums that cancel lose their digits. rows: or of that of its row along the last axis, where
    rows differ in size.
    """

    steps: int = 0
    relative: float = 1e-4
    rows: bool = False


class Workload(ABC):
    """One operator at given shapes and dtypes: a frozen dataclass.

    A subclass is an operator, and owns all that the operator means. It is known by the name given
    as `class Add(Workload, operator="add")` from the moment that its module is imported.

    Raises TypeError for a second operator of one name.
    """

    operator: ClassVar[str]
    """Name of the operator in keys and reports."""

    OPERATORS: ClassVar[dict[str, type[Workload]]] = {}
    """Operators by their names, those whose modules are imported."""

    quantises_by_range: ClassVar[bool] = False
    """Whether it gives the bytes, the scale and the zero point of what it finds the range of."""

    has_layouts: ClassVar[bool] = False
    """Whether activations may lie in another layout than NHWC, where their shapes allow it."""

    batch_sizes: ClassVar[int] = 1
    """How many of its first sizes say how often it computes one shape: its batch, or its rows."""

    converts: ClassVar[bool] = False
    """Whether it computes nothing but the same numbers in another dtype."""

    def __init_subclass__(cls, operator: str | None = None, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if operator is None:  # what several operators share
            return
        other = Workload.OPERATORS.get(operator)
        if other is not None and _place(other) != _place(cls):
            raise TypeError(f"two operators {operator!r}: {_place(other)} and {_place(cls)}")
        cls.operator = operator
        Workload.OPERATORS[operator] = cls

    def __post_init__(self) -> None:
        """Raises InputError for fields of other types; a subclass adds what else it refuses."""
        require_types(self)

    @property
    @abstractmethod
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The activations, in the order of a template's parameters."""

    @property
    @abstractmethod
    def outputs(self) -> tuple[TensorSpec, ...]:
        """What is computed, in the order of a template's parameters."""

    @property
    def constants(self) -> tuple[TensorSpec, ...]:
        """The `Constants`, in their canonical form; a template packs them as it likes."""
        return ()

    @abstractmethod
    def reference(self, activations: Sequence[np.ndarray], constants: Constants) -> Arrays:
        """The outputs in numpy, contiguous: the oracle that kernels are checked against."""

    def reference_in_threads(
        self, activations: Sequence[np.ndarray], constants: Constants, threads: int
    ) -> Arrays:
        """`reference` on so many threads, where it is worth more than one.

        numpy's BLAS should itself run on one thread, or the two get in each other's way.
        """
        return self.reference(activations, constants)

    @abstractmethod
    def random_case(self, rng: np.random.Generator) -> tuple[Arrays, dict[str, Any]]:
        """Activations and `Constants` for checking and timing kernels.

        Integers cover their whole range; scales are such that results spread over the output's
        range and some of them meet each bound; zero points are not 0 wherever the workload allows.
        """

    @property
    @abstractmethod
    def operations(self) -> int:
        """Arithmetic operations."""

    @property
    def operations_by_dtype(self) -> dict[str, int]:
        """The operations by the dtype in which they run; that of the first input by default."""
        return {self.inputs[0].dtype: self.operations}

    @property
    def bytes(self) -> int:
        """Bytes through device memory when every large operand moves once."""
        return sum(spec.bytes for spec in (*self.inputs, *self.outputs))

    def tolerance(self, target: Target) -> Tolerance:
        """How far a right kernel's outputs may lie from `reference`; integers are equal."""
        return Tolerance()

    @functools.cached_property
    def layouts(self) -> frozenset[str]:
        """Layouts that a template must know to compute the workload."""
        return frozenset(spec.layout for spec in (*self.inputs, *self.outputs))

    @property
    def in_nhwc(self) -> Workload:
        """The same arithmetic over NHWC activations."""
        return self

    def laid_out(self, layouts: Sequence[str] = LAYOUTS) -> Sequence[Workload]:
        """The same arithmetic in every combination of layouts that has a form, NHWC first."""
        return [self]

    def retyped(self, inputs: Sequence[str], outputs: Sequence[str]) -> Workload:
        """The same arithmetic over activations of other dtypes, in the order of the specs.

        Raises ValueError where it has no such form.
        """
        dtypes = [[spec.dtype for spec in specs] for specs in (self.inputs, self.outputs)]
        if [list(inputs), list(outputs)] == dtypes:
            return self
        raise ValueError(f"{self} has no form from {', '.join(inputs)} to {', '.join(outputs)}")

    def with_constant(self, name: str, dtype: str) -> Workload | None:
        """The same arithmetic over a constant of another dtype; None without such a form."""
        return None

    def with_sparsity(self, sparsity: Sparsity) -> Workload | None:
        """The same arithmetic, knowing what of its weight is zero; None without such a form."""
        return None

    def over_channels(self, count: int) -> Workload | None:
        """A product of rows, x [m, k] and weight [n, k], over so many k; None for all others."""
        return None

    @property
    def dense(self) -> Workload:
        """The same arithmetic, knowing nothing of its constants' zeros."""
        return self

    @property
    def sparsity(self) -> Sparsity | None:
        """What is known of its weight's zeros, of operators that have a form for it."""
        return None

    @property
    def knowing_less(self) -> tuple[Workload, ...]:
        """The same arithmetic by classes of its weight's zeros that tell less, `dense` at last.

        What computes one of these computes this one too. None where nothing is known.
        """
        found: list[Workload] = []
        known = self.sparsity
        while known is not None:
            known = known.less_known
            less = self.dense if known is None else self.with_sparsity(known)
            found += [] if less is None else [less]
        return tuple(found)

    def by_range(self) -> Workload | None:
        """The same arithmetic, whose float32 output is quantised as `DynamicQuantize` does it.

        The outputs are the bytes, in y's place, their scale and their zero point; the floats are
        nowhere. None without such a form.
        """
        return None

    def constant(self, name: str) -> TensorSpec | None:
        """The constant of a name, None where there is no such one."""
        return next((spec for spec in self.constants if spec.name == name), None)

    def element_table(self, constants: Constants) -> np.ndarray | None:
        """For a function of single values of 8 or 4 bits, its 256 results; None for others."""
        return None

    def before_table(
        self, constants: Constants, table: np.ndarray, out_dtype: str
    ) -> tuple[Workload, Constants] | None:
        """The workload with an `element_table` behind its output, None without such a form."""
        return None

    @property
    def dynamic(self) -> bool:
        """Whether the scale and the zero point of x are inputs, numbers of a run."""
        return False

    @property
    def has_four_bit_activations(self) -> bool:
        """Whether an input or an output is of 4 bits, whatever the constants are."""
        return any(is_four_bit(spec.dtype) for spec in (*self.inputs, *self.outputs))

    @property
    def has_four_bits(self) -> bool:
        """Whether an activation or a constant is of 4 bits."""
        return any(is_four_bit(one.dtype) for one in (*self.inputs, *self.outputs, *self.constants))

    def check_constants(self, constants: Constants) -> None:
        """Raise InputError unless they are what `self.constants` says.

        An operator whose constants have a structure also checks that it is of the class.
        """
        known = {spec.name: spec for spec in self.constants}
        for name in constants:
            if name not in known:
                raise InputError(f"{self}: no constant {name!r}; it takes {', '.join(known)}")
        for spec in known.values():
            if spec.name not in constants:
                if not spec.optional:
                    raise InputError(f"{self}: constant {spec.name!r} is missing")
                continue
            array = np.asarray(constants[spec.name])
            if not spec.shape and not (array.shape == () and array.dtype.kind in "iu"):
                raise InputError(f"{self}: constant {spec.name!r}: an integer is expected")
            exact = not spec.shape or str(array.dtype) == value_dtype(spec.dtype)
            if not (exact and spec.fits(array.shape)):
                bound = "at most " if spec.at_most else ""
                raise InputError(
                    f"{self}: constant {spec.name!r} is {array.dtype}{list(array.shape)}; "
                    f"expected {value_dtype(spec.dtype)}{bound and ' of ' + bound}"
                    f"{list(spec.shape)}"
                )

    @property
    def of_one_pair(self) -> Workload:
        """The work of one head of one batch, where pairs are independent; else all of it."""
        return self

    def key_fields(self) -> dict[str, Any]:
        """What the workload's key says besides its operator, ready for JSON."""
        return key_fields(self)


def as_workload(given: object) -> Workload:
    """What a user gave as a workload; raises InputError for anything else."""
    if isinstance(given, Workload):
        return given
    raise InputError(f"workload: expected a Workload, found {type(given).__name__}")


def key_fields(value: Any) -> dict[str, Any]:
    """The fields of a dataclass that make it equal to another, dataclasses in it likewise."""
    fields = [field.name for field in dataclasses.fields(value) if field.compare]
    return {name: _keyed(getattr(value, name)) for name in fields}


def _keyed(value: Any) -> Any:
    if not dataclasses.is_dataclass(value):
        return value
    own = getattr(value, "key_fields", None)
    return own() if own else key_fields(value)


def _place(operator: type) -> str:
    return f"{operator.__module__}.{operator.__qualname__}"
