"""Whether a candidate's outputs are right, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from ml_dtypes import finfo, iinfo

from autoq.measure.arrays import same_bytes
from autoq.measure.ordered_floats import ordered, ordered_limits
from autoq.templates.arrays.element import element
from autoq.templates.target import Target
from autoq.templates.workload import Tolerance, Workload

# Elements that are judged at once: their intermediates stay in a core's own cache.
_PART = 1 << 17

Spread = Callable[[Callable[[slice], Any], Iterator[slice]], Iterable[Any]]
"""`map`, or that of an executor."""


class Expected:
    """The right outputs of a workload, and how far an element of a candidate's may lie from them.

    Elements may be as far off as `Workload.tolerance` says. What follows from the right outputs
    alone is worked out once, for all candidates that are compared with them.

    Args:
        outputs: the right ones, in the order of the workload's.
        workload: what they are of.
        target: what candidates run on.
        spread: `map`, or that of an executor whose threads share the work of a large output.
    """

    def __init__(
        self,
        outputs: Sequence[np.ndarray],
        workload: Workload,
        target: Target,
        spread: Spread = map,
    ) -> None:
        tolerance = workload.tolerance(target)
        self.outputs = outputs
        self._names = [spec.name for spec in workload.outputs] if len(outputs) > 1 else [""]
        self._bounds = [_bounds(array, tolerance, spread) for array in outputs]
        self._spread = spread

    @property
    def bytes(self) -> int:
        """Bytes of host memory, bounds included."""
        bounds = (array for one in self._bounds for array in one.arrays)
        return sum(array.nbytes for array in (*self.outputs, *bounds))

    def complaint(self, outputs: Sequence[np.ndarray]) -> str | None:
        """What is wrong with the first output that has a wrong element, in one line, by its name
        where there are several; None when every element is right.
        """
        for y, right, bounds, name in zip(
            outputs, self.outputs, self._bounds, self._names, strict=True
        ):
            if not self._all_right(y, bounds):
                wrong = ~bounds.right(y.reshape(-1), slice(None))
                found = _first_wrong(y, right, wrong.reshape(y.shape))
                return f"{name}: {found}" if name else found
        return None

    def _all_right(self, y: np.ndarray, bounds: _Steps | _Shares) -> bool:
        flat = y.reshape(-1)
        if isinstance(bounds, _Steps) and bounds.exact is not None:
            return same_bytes(flat, bounds.exact)

        def right(part: slice) -> bool:
            return bool(bounds.right(flat[part], part).all())

        return all((map if flat.size <= _PART else self._spread)(right, _parts(flat.size)))


def complaint(
    y: np.ndarray, expected: np.ndarray, workload: Workload, target: Target
) -> str | None:
    """`Expected.complaint` of one output."""
    return Expected([expected], workload, target).complaint([y])


def complaints(
    outputs: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    workload: Workload,
    target: Target,
) -> str | None:
    """`Expected.complaint` of outputs that are compared once."""
    return Expected(expected, workload, target).complaint(outputs)


class _Steps:
    """Bounds of integers: the least and the largest value of each element."""

    def __init__(self, expected: np.ndarray, steps: int) -> None:
        flat = np.ascontiguousarray(expected).reshape(-1)
        self._low = self._high = flat
        if steps:
            limits, wide = iinfo(flat.dtype), flat.astype(np.int64)
            self._low = np.maximum(wide - steps, int(limits.min)).astype(flat.dtype)
            self._high = np.minimum(wide + steps, int(limits.max)).astype(flat.dtype)

    @property
    def exact(self) -> np.ndarray | None:
        """The right values, where no element may differ."""
        return self._low if self._low is self._high else None

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        return () if self._low is self._high else (self._low, self._high)

    def right(self, y: np.ndarray, part: slice) -> np.ndarray:
        if self._low is self._high:
            return y == self._low[part]
        return (y >= self._low[part]) & (y <= self._high[part])


class _Shares:
    """Bounds of floats: the least and the largest value of each element, as `ordered` has them."""

    def __init__(self, expected: np.ndarray, tolerance: Tolerance, spread: Spread) -> None:
        wide = expected.astype(np.float32)
        known = np.isfinite(wide)
        finite = wide[known].astype(np.float64)
        scale = math.sqrt(float(np.mean(finite**2))) if finite.size else 0.0
        own = np.minimum(np.abs(wide), float(finfo(expected.dtype).max))
        sizes = np.maximum(own, scale)
        if tolerance.rows:
            rows = np.where(known, wide, 0)
            sizes = np.maximum(sizes, np.sqrt(np.mean(rows**2, axis=-1, keepdims=True)))
        bound = np.asarray(tolerance.relative * sizes + _spacing(own, expected.dtype))
        flat = np.ascontiguousarray(expected).reshape(-1)
        self._dtype = expected.dtype
        self._low, self._high = ordered_limits(flat, bound.reshape(-1), spread)

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        return self._low, self._high

    def right(self, y: np.ndarray, part: slice) -> np.ndarray:
        if y.dtype != self._dtype:
            raise TypeError(f"an output of {y.dtype} beside an expected one of {self._dtype}")
        places = ordered(y)
        near = places >= self._low[part]
        near &= places <= self._high[part]
        return near


def _bounds(expected: np.ndarray, tolerance: Tolerance, spread: Spread) -> _Steps | _Shares:
    if element(str(expected.dtype)).floating:
        return _Shares(expected, tolerance, spread)
    return _Steps(expected, tolerance.steps)


def _parts(size: int) -> Iterator[slice]:
    return (slice(start, start + _PART) for start in range(0, size, _PART))


def _first_wrong(y: np.ndarray, expected: np.ndarray, wrong: np.ndarray) -> str:
    count = int(np.count_nonzero(wrong))
    first = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), y.shape))
    return (
        f"{count} of {y.size} elements wrong; first at {list(first)}: "
        f"{y[first]} instead of {expected[first]}"
    )


def _spacing(sizes: np.ndarray, dtype: np.dtype) -> np.ndarray | float:
    """How far two roundings of nearly the same number may lie apart; nothing for float32.

    At most a unit in the last place of a narrower float, which no tolerance of sums includes.
    """
    if dtype == np.float32:
        return 0.0
    limits = finfo(dtype)
    return np.maximum(sizes * float(limits.eps), float(limits.smallest_subnormal))
